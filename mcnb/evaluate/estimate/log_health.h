#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "mcnb/evaluate/estimate/intervals.h"
#include "mcnb/logs/logged_round.h"

namespace mcnb {

// What a log can answer, before any estimate is made from it.
class LogHealth {
 public:
  static constexpr std::size_t kMostNamed = 10'000;  // actions that are told apart

  // Adds the next round that counts.
  void add(const LoggedRound& round);

  std::uint64_t rounds = 0;
  std::uint64_t positive = 0;      // rewards above 0
  std::uint64_t defaults = 0;      // rewards that were not observed
  std::uint64_t certain = 0;       // rounds whose action had the probability 1
  std::uint64_t forced = 0;        // of these: there was only one action
  std::uint64_t unsummed = 0;      // rounds whose probabilities do not add up to 1
  std::uint64_t only_chosen = 0;   // rounds with the probability of the chosen action only
  double least_probability = 1.0;  // of a chosen action
  double lowest_reward = 0.0;
  double highest_reward = 0.0;
  bool drops_differ = false;      // rounds have different drop probabilities
  std::set<std::string> actions;  // that could be chosen
  std::set<std::string> taken;    // that were chosen

  // True if no decision with a choice was random: such a log cannot say what other actions earn.
  bool is_deterministic() const { return certain == rounds && forced < rounds; }

 private:
  void note_actions(const LoggedRound& round);

  double first_drop_ = 0.0;
  std::vector<RoundAction> noted_;  // the actions of the last round whose names were looked at
};

// The share of rounds whose weight is at least this one.
struct WeightShare {
  double weight = 0.0;
  double share = 0.0;
};

// How a policy's weights look on a log.
struct WeightHealth {
  double effective_size = 0.0;  // (sum of w)^2 / sum of w^2
  std::vector<double> largest;  // the largest weights, in descending order
  double mean = 0.0;            // 1 if the probabilities are right and every action was possible
  Interval mean_interval;       // 95 %, normal
  // The share of the policy's decisions that the log could not have taken; known only where the log
  // has the probabilities of all actions.
  double impossible = 0.0;
  std::uint64_t positive = 0;       // rewards above 0 in rounds with a weight above 0
  std::vector<WeightShare> shares;  // in ascending order; four weights for each power of two
};

// Sums up the weights of a policy, round by round.
class WeightSums {
 public:
  void add(double weight, double reward) {
    ++count_;
    sum_ += weight;
    squares_ += weight * weight;
    if (weight > 0.0) {
      positive_ += reward > 0.0 ? 1 : 0;
      ++steps_[step_of(weight)];
    }
    if (weight > threshold_) {
      note_large(weight);
    }
  }
  // Requires weights. `impossible` is left 0.
  WeightHealth health() const;

 private:
  // Weights from 2^-10 to 2^30, by the two leading bits of their mantissa; those beyond count as
  // the nearest.
  static constexpr std::size_t kSteps = 4 * 40;
  static std::size_t step_of(double weight);
  static double least_of(std::size_t step);

  void note_large(double weight);
  std::vector<WeightShare> shares() const;

  std::uint64_t count_ = 0;
  std::uint64_t positive_ = 0;
  std::array<std::uint64_t, kSteps> steps_{};  // rounds by weight
  double sum_ = 0.0;
  double squares_ = 0.0;
  double threshold_ = -1.0;      // what a weight must exceed to be among the largest
  std::vector<double> largest_;  // in descending order
};

// Names an action for people: its id, or its number.
std::string action_name(const LoggedRound& round, std::size_t action);

}  // namespace mcnb
