#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb::normal_draws_test {
namespace {

// The numbers are fixed by their addresses, so no test here passes or fails by luck.
Rng rng_at(std::uint64_t index) { return Rng(20'240'229, Stream::kTest, index); }

// How far x is from the true quantile, as a fraction of it: one Newton step in extended precision,
// on the side of the smaller tail, where nothing cancels.
double quantile_error(double probability, double x) {
  const bool upper = probability > 0.5;
  const long double tail = upper ? 1.0L - probability : static_cast<long double>(probability);
  const long double z = upper ? -static_cast<long double>(x) : static_cast<long double>(x);
  const long double found = std::erfc(-z / std::numbers::sqrt2_v<long double>) / 2.0L;
  const long double density =
      std::exp(-z * z / 2.0L) / std::sqrt(2.0L * std::numbers::pi_v<long double>);
  return static_cast<double>(std::abs((found - tail) / density / z));
}

std::vector<double> probabilities_to_try() {
  std::vector<double> tried;
  for (int exponent = -1; exponent >= -1022; --exponent) {
    tried.push_back(std::ldexp(0.7, exponent));
  }
  for (int exponent = -1; exponent >= -300; --exponent) {
    tried.push_back(std::pow(10.0, exponent));
  }
  for (int exponent = -2; exponent >= -53; --exponent) {
    tried.push_back(1.0 - std::ldexp(1.0, exponent));
  }
  // The points where one approximation takes over from another.
  for (const double edge : {0.075, 0.925, std::exp(-25.0), 1.0 - std::exp(-25.0)}) {
    tried.push_back(edge);
    tried.push_back(std::nextafter(edge, 0.0));
    tried.push_back(std::nextafter(edge, 1.0));
  }
  Rng rng = rng_at(6);
  for (int i = 0; i < 20'000; ++i) {
    tried.push_back(rng.uniform());
  }
  return tried;
}

TEST(NormalQuantile, InvertsTheDistributionFunction) {
  for (const double p : probabilities_to_try()) {
    EXPECT_LT(quantile_error(p, normal_quantile(p)), 1e-15) << p;
  }
}

TEST(NormalQuantile, HoldsForTheSmallestNumbers) {
  for (double p = std::numeric_limits<double>::min(); p > 0.0; p /= 2.0) {
    EXPECT_LT(quantile_error(p, normal_quantile(p)), 1e-15) << p;
  }
}

TEST(NormalQuantile, IsSymmetric) {
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  for (int i = 1; i < 4096; ++i) {
    const double p = i / 4096.0;  // 1 - p is exact
    EXPECT_EQ(normal_quantile(1.0 - p), -normal_quantile(p)) << p;
  }
}

TEST(NormalQuantile, Grows) {
  double last = normal_quantile(0x1p-20);
  for (int i = 2; i < 1 << 20; ++i) {
    const double x = normal_quantile(i * 0x1p-20);
    ASSERT_GT(x, last) << i;
    last = x;
  }
}

TEST(Rng, ANormalDrawFollowsTheInverseDistribution) {
  Rng rng = rng_at(7);
  Rng twin = rng_at(7);
  for (int i = 0; i < 10'000; ++i) {
    const double middle = static_cast<double>(twin.bits64() >> 12) + 0.5;  // of 2^52 equal parts
    ASSERT_LT(quantile_error(middle * 0x1p-52, rng.normal()), 1e-15);
  }
  EXPECT_EQ(rng.bits64(), twin.bits64()) << "a normal draw takes 64 bits";
}

TEST(Rng, NormalDrawsHaveTheRightMoments) {
  constexpr int kDraws = 100'000;
  Rng rng = rng_at(8);
  std::array<double, 4> sums{};
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    double power = 1.0;
    for (double& sum : sums) {
      sum += power *= x;
    }
  }
  // E x^k, and the variance of x^k: E x^2k - (E x^k)^2.
  const std::array<double, 4> means{0.0, 1.0, 0.0, 3.0};
  const std::array<double, 4> variances{1.0, 2.0, 15.0, 96.0};
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_NEAR(sums[k] / kDraws, means[k], 5.0 * std::sqrt(variances[k] / kDraws)) << k + 1;
  }
}

TEST(Rng, NormalDrawsPassKolmogorovAndSmirnov) {
  constexpr std::size_t kDraws = 50'000;
  Rng rng = rng_at(9);
  std::vector<double> draws(kDraws);
  std::ranges::generate(draws, [&] { return rng.normal(); });
  std::ranges::sort(draws);
  double distance = 0.0;
  for (std::size_t i = 0; i < kDraws; ++i) {
    const double p = std::erfc(-draws[i] / std::numbers::sqrt2) / 2.0;
    distance = std::max(
        {distance, p - static_cast<double>(i) / kDraws, static_cast<double>(i + 1) / kDraws - p});
  }
  EXPECT_LT(distance * std::sqrt(kDraws), 1.95);  // exceeded once in a thousand
  EXPECT_GT(distance * std::sqrt(kDraws), 0.2);   // nor is it too good to be random
}

}  // namespace
}  // namespace mcnb::normal_draws_test
