#include "mcnb/evaluate/policies/learning_policy.h"

#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/random.h"
#include "mcnb/evaluate/policies/policy_rounds.h"

namespace mcnb {
namespace {

constexpr Stream kRejectionStream{81};

}  // namespace

LearningPolicy::LearningPolicy(Method method, PolicySpec spec, double least, std::uint64_t seed,
                               ThreadPool& threads, Interval range)
    : method_(method),
      spec_(std::move(spec)),
      least_(least),
      seed_(seed),
      threads_(threads),
      range_(range),
      sequence_(ConfidenceSequence(range.low, range.high)) {}

void LearningPolicy::play(const RoundView& view) {
  const LoggedRound& logged = view.round;
  check(logged.reward.has_value() && !view.features.empty(), "the round can be learned");
  if (policy_ == nullptr) {
    const std::size_t dimension = view.features.size() / logged.actions.size();
    policy_ = make_policy(spec_, {.inputs = static_cast<std::uint32_t>(dimension),
                                  .users = 1,
                                  .seed = seed_,
                                  .threads = &threads_,
                                  .user_features = {}});
  }
  ++rounds_;
  const EligibleRound eligible = eligible_round(view, users_.of(logged.user, *policy_));
  const std::size_t choice = index(policy_->choose(eligible.round));
  const bool matches = eligible.actions[choice] == logged.chosen;
  const double sample_weight = 1.0 / (1.0 - logged.drop_probability);
  const double weight = matches ? 1.0 / logged.probability : 0.0;
  bool learns = true;
  if (method_ == Method::kReplay) {
    learns = matches && Rng(seed_, kRejectionStream, view.number).chance(least_ * weight);
    kept_ += learns ? 1 : 0;
    sum_ += learns ? sample_weight * *logged.reward : 0.0;
    sample_weights_ += learns ? sample_weight : 0.0;
  } else {
    kept_ += matches ? 1 : 0;
    sum_ += sample_weight * weight * *logged.reward;
    sample_weights_ += sample_weight;
  }
  if (!range_.contains(*logged.reward) || logged.slots > 1) {
    sequence_.reset();
  } else if (sequence_ && (learns || method_ == Method::kProgressive)) {
    sequence_->add(method_ == Method::kReplay ? 1.0 : weight, *logged.reward);
  }
  if (learns) {
    std::size_t arm = 0;
    while (eligible.actions[arm] != logged.chosen) {
      ++arm;
    }
    policy_->learn(eligible.round.id, eligible.round.arms[arm], static_cast<float>(*logged.reward));
  }
}

double LearningPolicy::value() const {
  return sample_weights_ > 0.0 ? sum_ / sample_weights_ : std::nan("");
}

std::optional<Interval> LearningPolicy::anytime() const {
  return sequence_ ? std::optional(sequence_->interval()) : std::nullopt;
}

}  // namespace mcnb
