#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/evaluate/estimate/estimators.h"

namespace mcnb {

struct Interval {
  double low = 0.0;
  double high = 0.0;

  bool contains(double value) const { return low <= value && value <= high; }
};

// The fractions of an estimator, summed over groups of consecutive rounds. Up to kMostGroups rounds
// every round is a group of its own; then neighbours are joined, again and again.
class GroupedFractions {
 public:
  static constexpr std::size_t kMostGroups = 8192;

  // Adds the next round.
  void add(const Fraction& fraction) {
    if (left_ == 0) {
      begin_group();
    }
    groups_.back().numerator += fraction.numerator;
    groups_.back().denominator += fraction.denominator;
    --left_;
  }
  // Adds the sums of the next `rounds` rounds. Requires that they fit into the present group.
  void add_sums(const Fraction& fractions, std::size_t rounds);
  // How many rounds fit into the present group, at least one.
  std::size_t room();

  std::span<const Fraction> groups() const { return groups_; }
  // The sum of all.
  Fraction sum() const;
  double value() const;

 private:
  void begin_group();

  std::size_t size_ = 1;  // rounds of a group
  std::size_t left_ = 0;  // that fit into the last group
  std::vector<Fraction> groups_;
};

// The values of several series of the same rounds in samples of their groups, drawn with
// replacement: by series, then by replicate. All series see the same samples, so that their
// differences are paired. Equal seeds give equal samples.
std::vector<std::vector<double>> bootstrap(std::span<const GroupedFractions* const> series,
                                           std::size_t replicates, std::uint64_t seed);

// The middle 95 % of the values.
Interval middle_of(std::vector<double> values);

// A 95 % interval of the mean of independent values from a range of this width, by the bound of
// Maurer and Pontil (2009) on either side: mean +- (sqrt(2 V l / n) + 7 width l / (3 (n - 1))) with
// the variance V of the sample and l = ln(4 / 0.05). Requires at least two values.
Interval empirical_bernstein(std::span<const double> values, double width);
// The same from their number, mean and variance.
Interval empirical_bernstein(double count, double mean, double variance, double width);

// A lower bound of the running mean of the expectations of nonnegative numbers that need no upper
// bound. It holds at all times at once with a probability of at least 1 - alpha, so one may look
// whenever one wants, and stop.
//
// For l in (0, 1), psi(l) = -ln(1 - l) - l, and a prediction p in [0, 1] made before x >= 0 is
// seen, exp(l (x - E x) - psi(l) (x - p)^2) has an expectation of at most 1 (Fan, Grama and Liu
// 2015; Waudby-Smith et al. 2022). So the product over all rounds, averaged over a fixed set of l,
// exceeds 1 / alpha at any time with a probability of at most alpha (Ville). The bound is where
// that average is 1 / alpha. Predictions are the mean so far, cut to [0, 1].
class RunningLowerBound {
 public:
  // Throws Error (kInput) for a negative number or one that is not finite.
  void add(double x);
  // At least 0; 0 before the first number.
  double bound(double alpha) const;

  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  double count_ = 0.0;
  double sum_ = 0.0;
  double squares_ = 0.0;  // of differences from the predictions
};

// A 95 % confidence sequence of the running mean of a policy's value, for rewards from [low, high]:
// the lower side from w r, the upper side from w (1 - r), for r scaled to [0, 1].
class ConfidenceSequence {
 public:
  ConfidenceSequence(double low, double high) : low_(low), high_(high) {}

  // Throws Error (kInput) for a reward outside the range.
  void add(double weight, double reward);
  Interval interval() const;

  // The sums, without the range of the rewards.
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  double low_;
  double high_;
  RunningLowerBound earned_;
  RunningLowerBound missed_;
};

}  // namespace mcnb
