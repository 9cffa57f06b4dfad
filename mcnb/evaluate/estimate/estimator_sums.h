#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/evaluate/estimate/intervals.h"

namespace mcnb {

// One estimator of one policy, summed round by round for all limits that it may have. Takes the
// same memory for any number of rounds.
class EstimatorSums {
 public:
  explicit EstimatorSums(Estimator estimator);

  // `joins`: whether a row belongs to the event of the row before, such as another slot of a page;
  // empty: none does. Such rows depend on each other, so an event counts as one for the scatter and
  // the bootstrap. All rows of an event come in one call.
  void add(std::span<const EvaluatedRow> rows, std::span<const char> joins = {});

  Estimator estimator() const { return estimator_; }
  // The M with the least estimate of the mean squared error: the variance of the value and the
  // square of its difference from the estimator without limit. Requires rounds, as do all below.
  double limit() const { return best().limit; }
  double value() const { return best().groups.value(); }
  // The standard error of the value, by the scatter of rounds, or of events with several.
  double standard_error() const;
  // With no limit.
  double unlimited() const { return sums_.front().groups.value(); }
  const GroupedFractions& groups() const { return best().groups; }
  // For values from a range of this width. Requires at least two rounds of equal sample weights,
  // each of an event of its own.
  Interval bernstein(double width) const;

 private:
  struct LimitSums {
    double limit = kNoLimit;
    GroupedFractions groups = {};
    double squares = 0.0;       // of numerators
    double products = 0.0;      // of numerators and denominators
    double denominators = 0.0;  // their squares
  };

  template <Estimator kind>
  void add_rows(std::span<const EvaluatedRow> rows, LimitSums& sums);
  void add_events(std::span<const EvaluatedRow> rows, std::span<const char> joins, LimitSums& sums);
  const LimitSums& best() const;
  static double variance_of(const LimitSums& sums);
  double squared_error(const LimitSums& sums) const;

  Estimator estimator_;
  double count_ = 0.0;
  std::vector<LimitSums> sums_;  // by limits_of
};

}  // namespace mcnb
