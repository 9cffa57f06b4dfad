#include "mcnb/experiment/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// The continued fraction of the incomplete beta function, by Lentz's method; converges fast for
// x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kMostTerms = 10'000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1.0;
  double d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
  double fraction = d;
  for (int i = 1; i < kMostTerms; ++i) {
    const double m = i;
    const double even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
    d = 1.0 / away_from_zero(1.0 + even * d);
    c = away_from_zero(1.0 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
    d = 1.0 / away_from_zero(1.0 + odd * d);
    c = away_from_zero(1.0 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1.0) < std::numeric_limits<double>::epsilon()) {
      break;
    }
  }
  return fraction;
}

// P(|T| >= |t|).
double two_sided_p_value(double t, double degrees_of_freedom) {
  if (std::isinf(t)) {
    return 0.0;
  }
  return incomplete_beta(degrees_of_freedom / 2.0, 0.5,
                         degrees_of_freedom / (degrees_of_freedom + t * t));
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

double incomplete_beta(double a, double b, double x) {
  check(a > 0.0 && b > 0.0 && x >= 0.0 && x <= 1.0, "the incomplete beta function is defined");
  if (x == 0.0 || x == 1.0) {
    return x;
  }
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1.0) / (a + b + 2.0)) {
    return front * beta_fraction(a, b, x) / a;
  }
  return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

double student_cdf(double t, double degrees_of_freedom) {
  const double tail = two_sided_p_value(t, degrees_of_freedom) / 2.0;
  return t > 0.0 ? 1.0 - tail : tail;
}

double student_quantile(double probability, double degrees_of_freedom) {
  check(probability > 0.0 && probability < 1.0, "a quantile needs a probability");
  if (probability < 0.5) {
    return -student_quantile(1.0 - probability, degrees_of_freedom);
  }
  double low = 0.0;
  double high = 1.0;
  while (student_cdf(high, degrees_of_freedom) < probability) {
    high *= 2.0;
  }
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2.0;
    (student_cdf(middle, degrees_of_freedom) < probability ? low : high) = middle;
  }
  return low + (high - low) / 2.0;
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
  // What rounding leaves of equal differences is no scatter.
  constexpr double kRounding = 1e-12;
  if (deviation <= kRounding * largest) {
    return std::nullopt;
  }
  const double difference = mean(differences);
  const auto count = static_cast<double>(values.size());
  const double error = deviation / std::sqrt(count);
  const double half_width = student_quantile(0.975, count - 1.0) * error;
  const double p_value = two_sided_p_value(difference / error, count - 1.0);
  return PairedComparison{difference, difference - half_width, difference + half_width, p_value};
}

}  // namespace mcnb
