#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/evaluate/estimate/estimator_sums.h"
#include "mcnb/evaluate/evaluation.h"

namespace mcnb {

// What a policy does in the rounds of a slot, or in all rounds, summed as they come.
class PolicySums {
 public:
  PolicySums(std::string name, std::span<const Estimator> estimators,
             const EvaluationOptions& options);

  // `joins`: the row belongs to the event of the row before; see EstimatorSums.
  void add(const EvaluatedRow& row, bool joins = false);
  // Call it after the last row.
  void finish() { sum_up(); }

  std::string name;
  double largest_weight = 0.0;  // that a round could have had
  double impossible = 0.0;      // sum of the probabilities of actions that the log could not take
  bool models_in_range = true;  // the model's rewards keep the range of rewards

  std::uint64_t rounds() const { return rounds_; }
  // True if some event has several of the rounds.
  bool has_events() const { return has_events_; }
  std::span<const EstimatorSums> estimators() const { return estimators_; }
  WeightHealth health() const;
  // Nothing if a reward left its range, or if an event has several rounds.
  std::optional<Interval> anytime() const;
  // The values of IPS and DR, whatever the estimators are: those with a bias differ from one of
  // them.
  double unbiased(Estimator biased) const;

 private:
  static constexpr std::size_t kRowsAtOnce = 256;

  void sum_up();

  std::vector<EvaluatedRow> rows_;  // that are not summed up yet
  std::vector<char> joins_;         // by row
  std::uint64_t rounds_ = 0;
  bool has_events_ = false;
  std::vector<EstimatorSums> estimators_;
  WeightSums weights_;
  std::optional<ConfidenceSequence> sequence_;
  double lowest_;
  double highest_;
  Fraction ips_;
  Fraction doubly_robust_;
};

// The first of the policies is the log itself, with the weight 1 everywhere and IPS alone.
// Estimates the values of the `shown` policies after it, and their differences from the baseline:
// the policy beyond those, or the log if there is none. `bounded`: rewards keep their range, and
// all rounds count alike.
SlotEvaluation estimate_slot(const EvaluationOptions& options, std::span<const PolicySums> policies,
                             std::size_t shown, bool bounded);

}  // namespace mcnb
