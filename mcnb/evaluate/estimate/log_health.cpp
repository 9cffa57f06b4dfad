#include "mcnb/evaluate/estimate/log_health.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

namespace mcnb {
namespace {

constexpr std::size_t kLargestShown = 5;
constexpr int kStepBits = 50;           // of a double, below the two leading ones of its mantissa
constexpr std::uint64_t kFirstStep = std::uint64_t{4} * (1023 - 10);  // 2^-10
constexpr double kNormal = 1.959963984540054;  // the 97.5 % quantile

void note(std::set<std::string>& names, const std::string& name) {
  if (names.size() < LogHealth::kMostNamed) {
    names.insert(name);
  }
}

}  // namespace

std::string action_name(const LoggedRound& round, std::size_t action) {
  const std::string& id = round.actions[action].id;
  return id.empty() ? std::to_string(action) : id;
}

void LogHealth::add(const LoggedRound& round) {
  const double reward = round.reward.value_or(0.0);
  if (rounds == 0) {
    first_drop_ = round.drop_probability;
    lowest_reward = highest_reward = reward;
  }
  ++rounds;
  lowest_reward = std::min(lowest_reward, reward);
  highest_reward = std::max(highest_reward, reward);
  positive += reward > 0.0 ? 1 : 0;
  defaults += round.default_reward ? 1 : 0;
  const auto eligible = round.eligible.empty()
                            ? round.actions.size()
                            : static_cast<std::size_t>(std::ranges::count(round.eligible, true));
  certain += round.probability >= 1.0 ? 1 : 0;
  forced += round.probability >= 1.0 && eligible == 1 ? 1 : 0;
  least_probability = std::min(least_probability, round.probability);
  drops_differ = drops_differ || round.drop_probability != first_drop_;
  if (round.probabilities.empty()) {
    only_chosen += eligible > 1 ? 1 : 0;
  } else {
    const double sum = std::accumulate(round.probabilities.begin(), round.probabilities.end(), 0.0);
    const bool same =
        std::abs(round.probabilities[round.chosen] - round.probability) < kProbabilityTolerance;
    unsummed += std::abs(sum - 1.0) > kProbabilityTolerance || !same ? 1 : 0;
  }
  note_actions(round);
  note(taken, action_name(round, round.chosen));
}

// Most logs offer the same actions round after round, so names are compared before they are noted.
void LogHealth::note_actions(const LoggedRound& round) {
  if (round.eligible.empty() &&
      std::ranges::equal(round.actions, noted_, {}, &RoundAction::id, &RoundAction::id)) {
    return;
  }
  for (std::size_t i = 0; i < round.actions.size(); ++i) {
    if (round.is_eligible(i)) {
      note(actions, action_name(round, i));
    }
  }
  if (round.eligible.empty()) {
    noted_ = round.actions;
  }
}

std::size_t WeightSums::step_of(double weight) {
  const std::uint64_t step = std::bit_cast<std::uint64_t>(weight) >> kStepBits;
  return std::clamp(step, kFirstStep, kFirstStep + kSteps - 1) - kFirstStep;
}

double WeightSums::least_of(std::size_t step) {
  return std::bit_cast<double>((kFirstStep + step) << kStepBits);
}

std::vector<WeightShare> WeightSums::shares() const {
  std::vector<WeightShare> shares;
  std::uint64_t rounds = 0;
  for (std::size_t step = kSteps; step-- > 0;) {
    rounds += steps_[step];
    if (steps_[step] > 0) {
      shares.push_back(
          {least_of(step), static_cast<double>(rounds) / static_cast<double>(count_)});
    }
  }
  std::ranges::reverse(shares);
  return shares;
}

void WeightSums::note_large(double weight) {
  largest_.insert(std::ranges::upper_bound(largest_, weight, std::greater<>()), weight);
  if (largest_.size() > kLargestShown) {
    largest_.pop_back();
  }
  if (largest_.size() == kLargestShown) {
    threshold_ = largest_.back();
  }
}

WeightHealth WeightSums::health() const {
  WeightHealth health;
  const auto count = static_cast<double>(count_);
  health.effective_size = squares_ > 0.0 ? sum_ * sum_ / squares_ : 0.0;
  health.mean = sum_ / count;
  const double variance =
      std::max(0.0, (squares_ - sum_ * sum_ / count) / std::max(1.0, count - 1.0));
  const double half = kNormal * std::sqrt(variance / count);
  health.mean_interval = {health.mean - half, health.mean + half};
  health.largest = largest_;
  health.positive = positive_;
  health.shares = shares();
  return health;
}

}  // namespace mcnb
