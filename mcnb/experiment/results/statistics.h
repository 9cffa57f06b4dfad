#pragma once

#include <optional>
#include <span>

namespace mcnb {

// Requires at least one value.
double mean(std::span<const double> values);

// Of a sample: divides by n - 1. nullopt for a single value.
std::optional<double> standard_deviation(std::span<const double> values);

// How much larger some values are than their references, pair by pair.
struct PairedComparison {
  double difference = 0.0;  // mean of value - reference
  double low = 0.0;         // 95 % interval of that mean, by Student's distribution
  double high = 0.0;
  double p_value = 1.0;  // two-sided paired t-test
};
// nullopt for fewer than two pairs, and if all differences are equal, because the test needs their
// scatter. Requires as many references as values.
std::optional<PairedComparison> compare_pairs(std::span<const double> values,
                                              std::span<const double> reference);

}  // namespace mcnb
