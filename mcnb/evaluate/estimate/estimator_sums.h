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

  void add(std::span<const EvaluatedRow> rows);

  Estimator estimator() const { return estimator_; }
  // The M with the least estimate of the mean squared error: the variance of the value and the
  // square of its difference from the estimator without limit. Requires rounds, as do all below.
  double limit() const { return best().limit; }
  double value() const { return best().groups.value(); }
  // With no limit.
  double unlimited() const { return sums_.front().groups.value(); }
  const GroupedFractions& groups() const { return best().groups; }
  // For values from a range of this width. Requires at least two rounds of equal sample weights.
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
  const LimitSums& best() const;
  double squared_error(const LimitSums& sums) const;

  Estimator estimator_;
  double count_ = 0.0;
  std::vector<LimitSums> sums_;  // by limits_of
};

}  // namespace mcnb
