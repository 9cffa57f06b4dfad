#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "mcnb/base/state_file.h"
#include "mcnb/evaluate/estimate/intervals.h"

namespace mcnb {

inline constexpr std::size_t kMostChallengers = 8;

// What a policy would earn in one decision, estimated from decisions of another: the ratio of
// weighted rewards to weights (SNIPS), with a confidence sequence that needs no bound on the
// weights and holds at all times at once.
class RunningValue {
 public:
  // `weight`: the policy's probability of the answer over that with which the answer was drawn.
  void add(double weight, double reward);

  std::uint64_t count() const { return count_; }
  // nullopt if no decision has a weight.
  std::optional<double> value() const;
  // A 95 % confidence sequence of the policy's mean value in these decisions.
  Interval interval() const { return sequence_.interval(); }
  double mean_weight() const;
  double effective_sample_size() const;

  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  std::uint64_t count_ = 0;
  double weights_ = 0.0;
  double squares_ = 0.0;   // of the weights
  double rewarded_ = 0.0;  // sum of weight times reward
  ConfidenceSequence sequence_{0.0, 1.0};
};

// A decision whose waiting time may not be over, and what is known of its outcome.
struct Outcome {
  std::uint64_t log_position = 0;  // of the decision
  std::uint64_t user = 0;          // hash of the user's name
  std::int64_t time = 0;
  double epsilon = 0.0;      // of the model, then
  float reward = 0.0F;       // of an event that has ended
  float probability = 1.0F;  // of the answer
  std::uint32_t eligible = 1;
  std::uint16_t agreed = 0;  // bit s: the challenger in slot s would have preferred the answer
  std::uint16_t flags = 0;

  static constexpr std::uint16_t kEnded = 1;      // its reward is known, or it has none
  static constexpr std::uint16_t kExcluded = 2;   // it ended without having been activated
  static constexpr std::uint16_t kScored = 4;     // the policies said what they prefer
  static constexpr std::uint16_t kPreferred = 8;  // the answer is the policy's own choice
  static constexpr std::uint16_t kFirst = 16;     // the answer is the caller's first action
  static constexpr std::uint16_t kAllFlags = 31;

  bool has(std::uint16_t flag) const { return (flags & flag) != 0; }
  // The probability of the answer under random play over that with which it was drawn.
  double random_weight() const;
  // The same of a policy that explores as the model did and would have preferred the answer, or
  // would not.
  double weight_of(bool preferred) const;

  using Stored = StoredInOrder<&Outcome::log_position, &Outcome::user, &Outcome::time,
                               &Outcome::epsilon, &Outcome::reward, &Outcome::probability,
                               &Outcome::eligible, &Outcome::agreed, &Outcome::flags>;
};
static_assert(sizeof(Outcome) == 48);

// Sums over the decisions that count.
struct OutcomeCounts {
  std::uint64_t counted = 0;
  std::uint64_t unactivated = 0;  // left out: nobody saw the answer
  double reward_sum = 0.0;

  using Stored = StoredInOrder<&OutcomeCounts::counted, &OutcomeCounts::unactivated,
                               &OutcomeCounts::reward_sum>;
};

// The decisions of which the outcome does not count yet, in their order. A decision counts when its
// waiting time is over, and never before an earlier one: rewards come before defaults, so whoever
// counted a decision when its reward comes would see too many rewards.
class Outcomes {
 public:
  std::size_t size() const { return waiting_.size(); }
  const OutcomeCounts& counts() const { return counts_; }

  void add(const Outcome& outcome) { waiting_.push_back(outcome); }
  // The event of this decision has ended: with a reward, or without having been activated. Does
  // nothing for a decision that was not added.
  void end(std::uint64_t log_position, std::optional<float> reward);
  // Drops the decisions of a user.
  void forget(std::uint64_t user);
  // True if the first decision has ended, and was made at or before `time`.
  bool is_due(std::int64_t time) const;
  // Takes out the first decision if it has ended, and was made at or before `time` or more than
  // `most` wait. It is counted, or left out if it was never activated (kExcluded).
  std::optional<Outcome> take(std::int64_t time, std::size_t most);

  std::size_t memory_bytes() const { return waiting_.size() * sizeof(Outcome); }
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  std::deque<Outcome> waiting_;
  OutcomeCounts counts_;
};

}  // namespace mcnb
