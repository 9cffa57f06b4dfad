#include "mcnb/experiment/results/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <vector>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using StudentT = boost::math::students_t_distribution<double>;

// P(|T| >= |t|).
double two_sided_p_value(const StudentT& distribution, double t) {
  return std::isinf(t) ? 0.0
                       : 2.0 * boost::math::cdf(boost::math::complement(distribution, std::abs(t)));
}

}  // namespace

double mean(std::span<const double> values) {
  check(!values.empty(), "a mean needs values");
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

std::optional<double> standard_deviation(std::span<const double> values) {
  if (values.size() < 2) {
    return std::nullopt;
  }
  const double centre = mean(values);
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - centre) * (value - centre);
  }
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::optional<PairedComparison> compare_pairs(std::span<const double> values,
                                              std::span<const double> reference) {
  check(values.size() == reference.size(), "every value has its reference");
  if (values.size() < 2) {
    return std::nullopt;
  }
  std::vector<double> differences(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    differences[i] = values[i] - reference[i];
  }
  const double deviation = *standard_deviation(differences);
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max({largest, std::abs(values[i]), std::abs(reference[i])});
  }
  // Differences that are equal except for rounding errors do not scatter.
  constexpr double kRounding = 1e-12;
  if (deviation <= kRounding * largest) {
    return std::nullopt;
  }
  const double difference = mean(differences);
  const auto count = static_cast<double>(values.size());
  const double error = deviation / std::sqrt(count);
  const StudentT distribution(count - 1.0);
  const double half_width = boost::math::quantile(distribution, 0.975) * error;
  const double p_value = two_sided_p_value(distribution, difference / error);
  return PairedComparison{difference, difference - half_width, difference + half_width, p_value,
                          p_value};
}

void correct_by_holm(std::span<PairedComparison* const> comparisons) {
  std::vector<PairedComparison*> sorted(comparisons.begin(), comparisons.end());
  std::ranges::sort(sorted, {}, &PairedComparison::p_value);
  double largest = 0.0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    largest = std::max(largest, sorted[i]->p_value * static_cast<double>(sorted.size() - i));
    sorted[i]->holm_p = std::min(largest, 1.0);
  }
}

}  // namespace mcnb
