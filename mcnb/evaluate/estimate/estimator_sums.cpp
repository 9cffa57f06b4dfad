#include "mcnb/evaluate/estimate/estimator_sums.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {

EstimatorSums::EstimatorSums(Estimator estimator) : estimator_(estimator) {
  for (const double limit : limits_of(estimator)) {
    sums_.push_back({.limit = limit});
  }
}

// The kind is known when this is compiled, so the loop has no switch.
template <Estimator kind>
void EstimatorSums::add_rows(std::span<const EvaluatedRow> rows, LimitSums& sums) {
  while (!rows.empty()) {
    const std::span<const EvaluatedRow> part =
        rows.first(std::min(sums.groups.room(), rows.size()));
    Fraction sum;
    double squares = 0.0;
    double products = 0.0;
    double denominators = 0.0;
    for (const EvaluatedRow& row : part) {
      const Fraction fraction = fraction_of(kind, sums.limit, row);
      sum.numerator += fraction.numerator;
      sum.denominator += fraction.denominator;
      squares += fraction.numerator * fraction.numerator;
      products += fraction.numerator * fraction.denominator;
      denominators += fraction.denominator * fraction.denominator;
    }
    sums.groups.add_sums(sum, part.size());
    sums.squares += squares;
    sums.products += products;
    sums.denominators += denominators;
    rows = rows.subspan(part.size());
  }
}

void EstimatorSums::add_events(std::span<const EvaluatedRow> rows, std::span<const char> joins,
                               LimitSums& sums) {
  for (std::size_t i = 0; i < rows.size();) {
    Fraction event;
    do {
      const Fraction more = fraction_of(estimator_, sums.limit, rows[i]);
      event.numerator += more.numerator;
      event.denominator += more.denominator;
      ++i;
    } while (i < rows.size() && joins[i] != 0);
    sums.groups.add(event);
    sums.squares += event.numerator * event.numerator;
    sums.products += event.numerator * event.denominator;
    sums.denominators += event.denominator * event.denominator;
  }
}

void EstimatorSums::add(std::span<const EvaluatedRow> rows, std::span<const char> joins) {
  check(joins.empty() || joins.size() == rows.size(), "every row says whether it joins");
  count_ += static_cast<double>(rows.size());
  for (LimitSums& sums : sums_) {
    if (!joins.empty()) {
      add_events(rows, joins, sums);
      continue;
    }
    switch (estimator_) {
      case Estimator::kIps:
        add_rows<Estimator::kIps>(rows, sums);
        break;
      case Estimator::kClippedIps:
        add_rows<Estimator::kClippedIps>(rows, sums);
        break;
      case Estimator::kSnips:
        add_rows<Estimator::kSnips>(rows, sums);
        break;
      case Estimator::kDirect:
        add_rows<Estimator::kDirect>(rows, sums);
        break;
      case Estimator::kDoublyRobust:
        add_rows<Estimator::kDoublyRobust>(rows, sums);
        break;
      case Estimator::kSwitch:
        add_rows<Estimator::kSwitch>(rows, sums);
        break;
      case Estimator::kShrinkage:
        add_rows<Estimator::kShrinkage>(rows, sums);
        break;
    }
  }
}

// The sum of (numerator - value denominator)^2 over the squared sum of the denominators.
double EstimatorSums::variance_of(const LimitSums& sums) {
  const Fraction sum = sums.groups.sum();
  const double value = sums.groups.value();
  const double squares =
      sums.squares - 2.0 * value * sums.products + value * value * sums.denominators;
  return std::max(0.0, squares) / (sum.denominator * sum.denominator);
}

double EstimatorSums::squared_error(const LimitSums& sums) const {
  const double bias = sums.groups.value() - unlimited();
  return variance_of(sums) + bias * bias;
}

double EstimatorSums::standard_error() const { return std::sqrt(variance_of(best())); }

const EstimatorSums::LimitSums& EstimatorSums::best() const {
  check(count_ > 0.0, "a value needs rounds");
  if (sums_.size() == 1) {
    return sums_.front();
  }
  const LimitSums* best = &sums_.front();
  double least = squared_error(*best);
  for (const LimitSums& sums : sums_) {
    const double error = squared_error(sums);
    if (error < least) {
      least = error;
      best = &sums;
    }
  }
  return *best;
}

Interval EstimatorSums::bernstein(double width) const {
  check(count_ >= 2.0, "a variance needs two rounds");
  const LimitSums& sums = best();
  const Fraction sum = sums.groups.sum();
  const double each = sum.denominator / count_;  // the denominator of every round
  const double mean = sum.numerator / sum.denominator;
  const double squares = sums.squares / (each * each);
  const double variance = std::max(0.0, (squares - count_ * mean * mean) / (count_ - 1.0));
  return empirical_bernstein(count_, mean, variance, width);
}

}  // namespace mcnb
