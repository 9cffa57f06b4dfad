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
  double holm_p = 1.0;   // p_value, until correct_by_holm raises it
};
// nullopt for fewer than two pairs, and if all differences are equal, because the test needs their
// scatter. Requires as many references as values.
std::optional<PairedComparison> compare_pairs(std::span<const double> values,
                                              std::span<const double> reference);

// Whoever compares ten policies with one finds a p-value below 0.05 by chance alone with a
// probability of up to 40 %. Sets holm_p of all comparisons by Holm's method: if none of the
// differences is real, the least of these values is below 0.05 in at most 5 % of all experiments.
void correct_by_holm(std::span<PairedComparison* const> comparisons);

}  // namespace mcnb
