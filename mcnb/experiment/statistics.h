#pragma once

#include <optional>
#include <span>

namespace mcnb {

// Requires at least one value.
double mean(std::span<const double> values);

// Of the sample (n - 1); nothing for a single value.
std::optional<double> standard_deviation(std::span<const double> values);

// The regularised incomplete beta function I_x(a, b), for a, b > 0 and x in [0, 1].
double incomplete_beta(double a, double b, double x);

// P(T <= t) for Student's distribution.
double student_cdf(double t, double degrees_of_freedom);
// The t with P(T <= t) = probability, for a probability strictly between 0 and 1.
double student_quantile(double probability, double degrees_of_freedom);

// How much larger `values` are than `reference`, pair by pair.
struct PairedComparison {
  double difference = 0.0;  // mean of value - reference
  double low = 0.0;         // 95 % interval of that mean, by Student's distribution
  double high = 0.0;
  double p_value = 1.0;  // two-sided paired t-test
};
// Nothing for fewer than two pairs, nor where all differences are equal: without any scatter the
// test has nothing to judge by. Requires as many references as values.
std::optional<PairedComparison> compare_pairs(std::span<const double> values,
                                              std::span<const double> reference);

}  // namespace mcnb
