// What a model's challengers learn and would choose, and what all of them would have earned.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::uint32_t free_slot(const std::vector<Challenger>& challengers) {
  std::uint32_t slot = 0;
  while (std::ranges::count(challengers, slot, &Challenger::slot) > 0) {
    ++slot;
  }
  return slot;
}

}  // namespace

Challenger* Model::find_challenger(std::string_view name) {
  const auto found = std::ranges::find(challengers_, name, &Challenger::name);
  return found == challengers_.end() ? nullptr : &*found;
}

bool Model::has_challenger(std::string_view name) const {
  return std::ranges::count(challengers_, name, &Challenger::name) > 0;
}

// nullptr for a challenger that there is not.
Policy* Model::policy_of(const std::string& challenger) {
  if (challenger.empty()) {
    return policy_.get();
  }
  Challenger* const found = find_challenger(challenger);
  return found == nullptr ? nullptr : found->policy.get();
}

void Model::on(const ChallengerBegin& event) {
  last_time_ = std::max(last_time_, event.time);
  require(challengers_.size() < kMostChallengers, "there are too many challengers");
  require(!has_challenger(event.name), "a challenger begins twice");
  learn_now();
  Challenger challenger;
  challenger.name = event.name;
  challenger.options = challenger_options(event.options);
  challenger.size = size_of_challenger(options_, challenger.options, threads_);
  challenger.policy =
      lent_ ? std::move(lent_) : make_challenger(options_, challenger.options, threads_);
  const std::size_t first = challenger.policy->user_count();
  if (const std::size_t users = policy_->user_count(); users > first) {
    challenger.policy->add_users(users - first);
  }
  challenger.slot = free_slot(challengers_);
  challenger.since = last_position_;
  challengers_.push_back(std::move(challenger));
  options_.estimates = true;
}

void Model::on(const ChallengerEnd& event) {
  last_time_ = std::max(last_time_, event.time);
  require(has_challenger(event.name), "a challenger ends that there is not");
  learn_now();
  std::erase_if(challengers_, [&](const Challenger& one) { return one.name == event.name; });
}

void Model::on(const Promotion& event) {
  last_time_ = std::max(last_time_, event.time);
  Challenger* const promoted = find_challenger(event.name);
  require(promoted != nullptr, "a challenger is promoted that there is not");
  require(event.keep_as.empty() || event.keep_as == event.name || !has_challenger(event.keep_as),
          "the name of another challenger is given to the policy that was promoted before");
  learn_now();
  std::swap(policy_, promoted->policy);
  std::swap(size_, promoted->size);
  std::swap(options_.policy, promoted->options.policy);
  if (event.keep_as.empty()) {
    challengers_.erase(challengers_.begin() + (promoted - challengers_.data()));
  } else {
    promoted->name = event.keep_as;
    promoted->options.weights = LessonWeights::kNone;
    promoted->learned = promoted->refused = 0;
    promoted->last_refusal.clear();
  }
  champion_since_ = last_position_;
  champion_ = {};
  for (Challenger& challenger : challengers_) {
    challenger.since = last_position_;
    challenger.estimate = challenger.champion = {};
  }
}

void Model::on(const FitBegin& event) {
  learn_now();
  Policy* const policy = policy_of(event.challenger);
  require(policy != nullptr && policy->fit_is_due(), "a fit begins that is not due");
  policy->begin_fit();
}

void Model::on(const FitResult& event) {
  learn_now();
  Policy* const policy = policy_of(event.challenger);
  require(policy != nullptr && policy->fit_in_progress(), "the result of a fit that was not begun");
  const auto begin = std::chrono::steady_clock::now();
  policy->finish_fit(event.result);
  learning_seconds_ += seconds_since(begin);
}

std::optional<std::string> Model::due_fit() const {
  if (policy_->fit_is_due()) {
    return std::string();
  }
  for (const Challenger& challenger : challengers_) {
    if (challenger.policy->fit_is_due()) {
      return challenger.name;
    }
  }
  return std::nullopt;
}

std::shared_ptr<BackgroundFit> Model::fit_in_progress() const {
  return policy_->fit_in_progress() ? policy_->begin_fit() : nullptr;
}

std::vector<Model::Fit> Model::fits_in_progress() const {
  std::vector<Fit> fits;
  if (std::shared_ptr<BackgroundFit> own = fit_in_progress()) {
    fits.push_back({"", std::move(own)});
  }
  for (const Challenger& challenger : challengers_) {
    if (challenger.policy->fit_in_progress()) {
      fits.push_back({challenger.name, challenger.policy->begin_fit()});
    }
  }
  return fits;
}

// Keeps what the estimates need of a decision until it counts.
void Model::note_outcome(const Decision& event, const WaitingEvent& waiting) {
  if (!options_.estimates) {
    return;
  }
  const bool scored = event.mode != ModelMode::kLogging;
  Outcome outcome{.log_position = waiting.log_position,
                  .user = waiting.user,
                  .time = waiting.time,
                  .epsilon = options_.epsilon,
                  .probability = event.actions[event.chosen].probability,
                  .eligible = static_cast<std::uint32_t>(
                      std::ranges::count(event.actions, true, &LoggedAction::eligible))};
  outcome.flags |= scored ? Outcome::kScored : 0;
  outcome.flags |= scored && event.chosen == event.preferred ? Outcome::kPreferred : 0;
  outcome.flags |= event.arm == 0 ? Outcome::kFirst : 0;
  for (std::size_t i = 0; i < event.challenged.size(); ++i) {
    if (event.challenged[i] == event.chosen) {
      outcome.agreed = static_cast<std::uint16_t>(outcome.agreed | 1 << challengers_[i].slot);
    }
  }
  outcomes_.add(outcome);
}

// Counts the decisions whose waiting time is over, by the time of the latest event.
void Model::count_outcomes() {
  const auto most = static_cast<std::size_t>(options_.most_pending);
  while (const auto outcome = outcomes_.take(last_time_ - waiting_milliseconds(), most)) {
    if (!outcome->has(Outcome::kExcluded)) {
      count(*outcome);
    }
  }
}

void Model::count(const Outcome& outcome) {
  const auto reward = static_cast<double>(outcome.reward);
  random_.add(outcome.random_weight(), reward);
  first_.add(outcome.has(Outcome::kFirst) ? 1.0 / static_cast<double>(outcome.probability) : 0.0,
             reward);
  if (!outcome.has(Outcome::kScored)) {
    return;
  }
  const double own = outcome.weight_of(outcome.has(Outcome::kPreferred));
  if (outcome.log_position > champion_since_) {
    champion_.add(own, reward);
  }
  for (Challenger& challenger : challengers_) {
    if (outcome.log_position > challenger.since) {
      const bool agreed = (outcome.agreed >> challenger.slot & 1) != 0;
      challenger.estimate.add(outcome.weight_of(agreed), reward);
      challenger.champion.add(own, reward);
    }
  }
}

EstimateReport Model::estimates() const {
  EstimateReport report{.counts = outcomes_.counts(),
                        .uncounted = outcomes_.size(),
                        .champion = champion_,
                        .random = random_,
                        .first = first_,
                        .challengers = {}};
  for (const Challenger& one : challengers_) {
    report.challengers.push_back({.name = one.name,
                                  .options = one.options,
                                  .since = one.since,
                                  .learned = one.learned,
                                  .refused = one.refused,
                                  .memory_bytes = one.policy->memory_bytes(),
                                  .estimate = one.estimate,
                                  .champion = one.champion,
                                  .last_refusal = one.last_refusal});
  }
  return report;
}

// The lessons are those of lessons_.
void Model::teach(Challenger& challenger, std::vector<RewardedArm> lessons) {
  std::vector<std::vector<float>> scaled;  // features
  if (challenger.options.weights == LessonWeights::kClipped) {
    for (std::size_t i = 0; i < lessons.size(); ++i) {
      const auto most = static_cast<float>(challenger.options.most_weight);
      const float root = std::sqrt(std::min(lessons_[i].weight, most));
      scaled.push_back(lessons_[i].features);
      for (float& number : scaled.back()) {
        number *= root;
      }
      lessons[i].arm.features = {scaled.back()};
      lessons[i].reward *= root;
    }
  }
  const std::vector<Refusal> refused = challenger.policy->learn_all(lessons);
  challenger.learned += lessons.size();
  challenger.refused += refused.size();
  if (!refused.empty()) {
    challenger.last_refusal = refused.back().why.what();
  }
}

// By challenger, what it prefers in each round: an index among the arms. A challenger that cannot
// decide, because its numbers are no longer finite, takes the first.
std::vector<std::vector<std::uint32_t>> Model::choices_of_challengers(
    std::span<const Round> rounds) {
  std::vector<std::vector<std::uint32_t>> choices;
  for (Challenger& challenger : challengers_) {
    std::vector<std::uint32_t>& own = choices.emplace_back();
    try {
      for (const std::vector<Score>& scores : challenger.policy->scores_of(rounds)) {
        own.push_back(static_cast<std::uint32_t>(index(highest(scores))));
      }
    } catch (const Error& error) {
      challenger.last_refusal = error.what();
      own.assign(rounds.size(), 0);
    }
  }
  return choices;
}

std::size_t Model::arms_apart() const {
  std::size_t apart = policy_->arms_apart();
  for (const Challenger& challenger : challengers_) {
    const std::size_t own = challenger.policy->arms_apart();
    apart = own == 0 ? apart : std::lcm(apart, own);
  }
  return apart;
}

// The challengers' part of score_part. Rounds that a challenger cannot cut it gets whole, at last.
void Model::score_challengers(PartedDecision& parted, std::size_t begin, std::size_t end) {
  const bool last = end == parted.round.arms.size();
  parted.challengers.resize(challengers_.size());
  for (std::size_t i = 0; i < challengers_.size(); ++i) {
    Challenger& challenger = challengers_[i];
    std::vector<Score>& scores = parted.challengers[i];
    const bool cut = challenger.policy->arms_apart() > 0;
    if ((!cut && !last) || (cut && scores.size() < begin)) {
      continue;
    }
    try {
      const std::vector<Score> more =
          cut ? challenger.policy->scores_of_part(parted.round, begin, end)
              : challenger.policy->scores(parted.round);
      scores.insert(scores.end(), more.begin(), more.end());
    } catch (const Error& error) {
      challenger.last_refusal = error.what();
      scores.clear();
    }
  }
}

}  // namespace mcnb
