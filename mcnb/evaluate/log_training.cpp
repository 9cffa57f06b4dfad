#include "mcnb/evaluate/log_training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/evaluate/policies/policy_rounds.h"

namespace mcnb {
namespace {

constexpr Stream kLessonStream{82};

struct Stopped {};  // leaves the reading of a log

std::uint64_t lessons_of(const LoggedRound& round, std::size_t eligible, std::uint64_t number,
                         const TrainingWeights& weights, std::uint64_t seed) {
  if (!weights.importance) {
    return 1;
  }
  const double inverse = 1.0 / (static_cast<double>(eligible) * round.probability);
  const double weight = std::min(inverse, weights.most) / (1.0 - round.drop_probability);
  const double whole = std::floor(weight);
  const bool one_more = Rng(seed, kLessonStream, number).chance(weight - whole);
  return static_cast<std::uint64_t>(whole) + (one_more ? 1 : 0);
}

}  // namespace

std::uint64_t learn_round(Policy& policy, LogUsers& users, const RoundView& view,
                          const TrainingWeights& weights, std::uint64_t seed) {
  const LoggedRound& logged = view.round;
  check(logged.reward.has_value() && !view.features.empty(), "the round can be learned");
  const EligibleRound eligible = eligible_round(view, users.of(logged.user, policy));
  const auto found = std::ranges::find(eligible.actions, std::size_t{logged.chosen});
  check(found != eligible.actions.end(), "the chosen action was eligible");
  const Arm& arm = eligible.round.arms[static_cast<std::size_t>(found - eligible.actions.begin())];
  const std::uint64_t lessons =
      lessons_of(logged, eligible.actions.size(), view.number, weights, seed);
  for (std::uint64_t i = 0; i < lessons; ++i) {
    policy.learn(eligible.round.id, arm, static_cast<float>(*logged.reward));
  }
  return lessons;
}

LogTraining::LogTraining(LogTrainingOptions options, ThreadPool& threads)
    : options_(std::move(options)), threads_(threads), features_(options_.dimension) {
  state_.spec = options_.policy;
}

LogTraining::LogTraining(SavedPolicy saved, LogTrainingOptions options, ThreadPool& threads)
    : options_(std::move(options)),
      threads_(threads),
      features_(saved.setup.inputs),
      state_(std::move(saved)) {
  if (state_.memory.users.empty() && state_.policy->user_count() > 1) {
    throw Error(ErrorKind::kUsage,
                fmt::format("the saved policy has {} users without names, so those of the log "
                            "cannot be found among them; expected a file of mcnb train",
                            state_.policy->user_count()));
  }
  users_ = LogUsers(std::move(state_.memory.users));
}

void LogTraining::make_policy_for(std::size_t inputs) {
  if (state_.policy == nullptr) {
    state_.setup = {.inputs = static_cast<std::uint32_t>(inputs),
                    .users = 1,
                    .seed = options_.seed,
                    .threads = &threads_,
                    .user_features = {}};
    state_.policy = make_policy(state_.spec, state_.setup);
  }
  if (inputs != state_.setup.inputs) {
    throw Error(ErrorKind::kInput,
                fmt::format("features: the policy takes {} numbers, the log has {}",
                            state_.setup.inputs, inputs));
  }
}

void LogTraining::learn(const LoggedRound& round, std::uint64_t number) {
  counts_.excluded += round.excluded ? 1 : 0;
  counts_.unrewarded += !round.excluded && !round.reward ? 1 : 0;
  if (round.excluded || !round.reward) {
    return;
  }
  const std::span<const float> features = features_.of(round);
  make_policy_for(features_.dimension());
  counts_.lessons += learn_round(*state_.policy, users_, {number, round, features},
                                 options_.weights, options_.seed);
  ++counts_.rounds;
}

bool LogTraining::pass(const ReadRounds& read, const GoesOn& goes_on) {
  const std::uint64_t before = counts_.rounds;
  try {
    read(true, [&](const LoggedRound& round) {
      learn(round, state_.memory.next_round++);
      if (!goes_on(counts_)) {
        throw Stopped{};
      }
    });
  } catch (const Stopped&) {
    return false;
  }
  if (counts_.rounds == before) {
    throw Error(ErrorKind::kInput,
                fmt::format("expected a log with rewards, found none ({} rounds are excluded, {} "
                            "have no reward)",
                            counts_.excluded, counts_.unrewarded));
  }
  return true;
}

void LogTraining::save(const std::string& path) const {
  check(state_.policy != nullptr, "the policy has learned something");
  save_trained_policy(path, state_.spec, state_.setup, *state_.policy,
                      {.users = users_.names(), .next_round = state_.memory.next_round});
}

}  // namespace mcnb
