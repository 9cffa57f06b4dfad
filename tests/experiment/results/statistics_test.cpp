#include "mcnb/experiment/results/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace mcnb::statistics_test {
namespace {

TEST(Statistics, MeanAndDeviation) {
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(values), 5.0);
  EXPECT_DOUBLE_EQ(*standard_deviation(values), std::sqrt(32.0 / 7.0));
  EXPECT_FALSE(standard_deviation(std::vector<double>{3.0}).has_value());
}

// Pairs whose mean difference is `t` times its standard error.
PairedComparison with_statistic(double t, std::size_t pairs) {
  std::vector<double> values;
  for (std::size_t i = 0; i < pairs; ++i) {
    values.push_back(static_cast<double>(i));
  }
  const double error = *standard_deviation(values) / std::sqrt(static_cast<double>(pairs));
  const double shift = t * error - mean(values);
  for (double& value : values) {
    value += shift;
  }
  return *compare_pairs(values, std::vector<double>(pairs, 0.0));
}

// With one and two degrees of freedom, and with very many, the distribution is elementary.
TEST(Statistics, PValuesMatchTheClosedForms) {
  for (const double t : {-20.0, -3.0, -0.5, 0.1, 1.0, 2.5, 40.0}) {
    const double size = std::abs(t);
    EXPECT_NEAR(with_statistic(t, 2).p_value, 1.0 - 2.0 * std::atan(size) / M_PI, 1e-12);
    EXPECT_NEAR(with_statistic(t, 3).p_value, 1.0 - size / std::sqrt(2 + size * size), 1e-12);
    EXPECT_NEAR(with_statistic(t, 100'000).p_value, std::erfc(size / std::sqrt(2.0)), 1e-5);
  }
}

// The table found in every textbook, here as the half width of an interval.
TEST(Statistics, IntervalsMatchThePrintedQuantiles) {
  const std::pair<std::size_t, double> table[] = {
      {2, 12.7062}, {5, 2.7764}, {10, 2.2622}, {31, 2.0423}};
  for (const auto& [pairs, quantile] : table) {
    const PairedComparison comparison = with_statistic(1.0, pairs);
    EXPECT_NEAR((comparison.high - comparison.difference) / comparison.difference, quantile, 5e-5);
    EXPECT_NEAR((comparison.difference - comparison.low) / comparison.difference, quantile, 5e-5);
  }
}

// What R's p.adjust(p, method = "holm") gives for these values.
TEST(Statistics, HolmsCorrectionMatchesPrintedValues) {
  const std::vector<double> plain{0.01, 0.04, 0.03, 0.005, 0.6};
  const std::vector<double> corrected{0.04, 0.09, 0.09, 0.025, 0.6};
  std::vector<PairedComparison> comparisons;
  for (const double p : plain) {
    comparisons.push_back({.p_value = p, .holm_p = p});
  }
  std::vector<PairedComparison*> pointers;
  for (PairedComparison& comparison : comparisons) {
    pointers.push_back(&comparison);
  }
  correct_by_holm(pointers);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(comparisons[i].holm_p, corrected[i], 1e-15) << plain[i];
  }
}

// Student's own data (1908): extra hours of sleep by two drugs, ten patients. R's
// t.test(extra ~ group, paired = TRUE) prints t = 4.0621, df = 9, p = 0.002833, interval
// 0.7001142 to 2.4598858.
TEST(Statistics, PairedComparisonOfStudentsSleepData) {
  const std::vector<double> first{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  const std::vector<double> second{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  const PairedComparison comparison = *compare_pairs(second, first);
  EXPECT_NEAR(comparison.difference, 1.58, 1e-12);
  EXPECT_NEAR(comparison.low, 0.7001142, 5e-8);
  EXPECT_NEAR(comparison.high, 2.4598858, 5e-8);
  EXPECT_NEAR(comparison.p_value, 0.002833, 5e-7);
}

TEST(Statistics, NothingIsSaidOfFewPairsOrOfDifferencesWithoutScatter) {
  const std::vector<double> values{1, 2, 3};
  EXPECT_FALSE(compare_pairs(std::vector<double>{1.0}, std::vector<double>{2.0}).has_value());
  EXPECT_FALSE(compare_pairs(values, values).has_value());
  EXPECT_FALSE(compare_pairs(std::vector<double>{2, 3, 4}, values).has_value());
  // Equal but for rounding.
  EXPECT_FALSE(compare_pairs(std::vector<double>{0.1 + 0.2, 1.1 + 0.2, 7.7 + 0.2},
                             std::vector<double>{0.1, 1.1, 7.7})
                   .has_value());
  EXPECT_TRUE(compare_pairs(std::vector<double>{2, 3, 4.001}, values).has_value());
}

}  // namespace
}  // namespace mcnb::statistics_test
