#include "mcnb/experiment/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mcnb::statistics_test {
namespace {

TEST(Statistics, MeanAndDeviation) {
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(values), 5.0);
  EXPECT_DOUBLE_EQ(*standard_deviation(values), std::sqrt(32.0 / 7.0));
  EXPECT_FALSE(standard_deviation(std::vector<double>{3.0}).has_value());
}

// With one and two degrees of freedom, and with infinitely many, the distribution is elementary.
TEST(Statistics, StudentDistributionMatchesItsClosedForms) {
  for (const double t : {-20.0, -3.0, -0.5, 0.0, 0.1, 1.0, 2.5, 40.0}) {
    EXPECT_NEAR(student_cdf(t, 1), 0.5 + std::atan(t) / M_PI, 1e-14);
    EXPECT_NEAR(student_cdf(t, 2), 0.5 + t / (2 * std::sqrt(2 + t * t)), 1e-14);
    EXPECT_NEAR(student_cdf(t, 1e6), std::erfc(-t / std::sqrt(2.0)) / 2, 1e-6);
  }
}

// The table found in every textbook.
TEST(Statistics, StudentQuantilesMatchThePrintedTable) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.7062, 5e-5);
  EXPECT_NEAR(student_quantile(0.975, 4), 2.7764, 5e-5);
  EXPECT_NEAR(student_quantile(0.975, 9), 2.2622, 5e-5);
  EXPECT_NEAR(student_quantile(0.975, 30), 2.0423, 5e-5);
  EXPECT_NEAR(student_quantile(0.995, 10), 3.1693, 5e-5);
  EXPECT_NEAR(student_quantile(0.05, 10), -1.8125, 5e-5);
  EXPECT_NEAR(student_quantile(0.5, 7), 0.0, 1e-12);
  for (const double p : {0.001, 0.2, 0.7, 0.9999}) {
    EXPECT_NEAR(student_cdf(student_quantile(p, 6), 6), p, 1e-12);
  }
}

TEST(Statistics, IncompleteBetaMatchesItsIntegral) {
  const auto by_steps = [](double a, double b, double x) {
    constexpr int kSteps = 200'000;
    double part = 0.0;
    double whole = 0.0;
    for (int i = 0; i < kSteps; ++i) {
      const double u = (i + 0.5) / kSteps;
      const double f = std::pow(u, a - 1) * std::pow(1 - u, b - 1);
      whole += f;
      part += u < x ? f : 0.0;
    }
    return part / whole;
  };
  for (const double a : {1.0, 2.5, 7.0}) {
    for (const double b : {1.5, 4.0}) {
      for (const double x : {0.1, 0.5, 0.9}) {
        EXPECT_NEAR(incomplete_beta(a, b, x), by_steps(a, b, x), 1e-5);
      }
    }
  }
  EXPECT_EQ(incomplete_beta(2, 3, 0), 0.0);
  EXPECT_EQ(incomplete_beta(2, 3, 1), 1.0);
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
