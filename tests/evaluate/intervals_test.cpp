// Intervals beside their plain formulas; the confidence sequence holds at all times at once.

#include "mcnb/evaluate/estimate/intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/evaluate/synthetic_log.h"
#include "tests/expect_error.h"
#include "tests/long_tests.h"

namespace mcnb::intervals_test {
namespace {

TEST(Intervals, EmpiricalBernsteinIsTheFormulaOfMaurerAndPontil) {
  Rng rng(1, Stream::kTest);
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) {
    values.push_back(3.0 * rng.uniform());
  }
  const double n = 200.0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double pairs = 0.0;  // the variance as the paper has it: from all pairs
  for (const double a : values) {
    for (const double b : values) {
      pairs += (a - b) * (a - b) / 2.0;
    }
  }
  const double variance = pairs / (n * (n - 1.0));
  const double log_term = std::log(2.0 / 0.025);
  const double half =
      std::sqrt(2.0 * variance * log_term / n) + 3.0 * 7.0 * log_term / (3.0 * (n - 1.0));
  const Interval found = empirical_bernstein(values, 3.0);
  EXPECT_NEAR(found.low, mean - half, 1e-12);
  EXPECT_NEAR(found.high, mean + half, 1e-12);
}

TEST(Intervals, GroupsKeepTheSums) {
  for (const std::size_t rounds : {std::size_t{7}, 3 * GroupedFractions::kMostGroups + 5}) {
    GroupedFractions fractions;
    double numerators = 0.0;
    for (std::size_t i = 0; i < rounds; ++i) {
      fractions.add({static_cast<double>(i), 2.0});
      numerators += static_cast<double>(i);
    }
    EXPECT_LE(fractions.groups().size(), std::min(rounds, GroupedFractions::kMostGroups));
    EXPECT_GE(fractions.groups().size(), std::min(rounds, GroupedFractions::kMostGroups / 2));
    EXPECT_NEAR(fractions.value(), numerators / (2.0 * static_cast<double>(rounds)), 1e-9);
  }
}

// The bootstrap's deviation of a mean is the deviation of the sample over the root of its size.
TEST(Intervals, TheBootstrapScattersAsMeansDo) {
  constexpr std::size_t kRounds = 400;
  GroupedFractions values;
  GroupedFractions shifted;
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < kRounds; ++i) {
    const double x = Rng(2, Stream::kTest, i).normal();
    values.add({x, 1.0});
    shifted.add({x + 0.25, 1.0});
    sum += x;
    squares += x * x;
  }
  const std::vector<const GroupedFractions*> series{&values, &shifted};
  const auto draws = bootstrap(series, 4000, 1);
  const double mean = sum / kRounds;
  const double deviation = std::sqrt((squares / kRounds - mean * mean) / kRounds);
  const Interval middle = middle_of(draws[0]);
  EXPECT_NEAR(middle.low, mean - 1.96 * deviation, 0.15 * deviation);
  EXPECT_NEAR(middle.high, mean + 1.96 * deviation, 0.15 * deviation);
  for (std::size_t i = 0; i < draws[0].size(); ++i) {
    EXPECT_NEAR(draws[1][i] - draws[0][i], 0.25, 1e-12);  // pairs see the same rounds
  }
  EXPECT_EQ(bootstrap(series, 10, 1)[0], bootstrap(series, 10, 1)[0]);
  EXPECT_NE(bootstrap(series, 10, 1)[0], bootstrap(series, 10, 2)[0]);
}

// One of 40 gaps between 39 values holds the next one with the probability 1/40, which is 2.5 %.
TEST(Intervals, TheMiddleLeavesOutOneGapInForty) {
  std::vector<double> values;
  for (int i = 39; i >= 1; --i) {
    values.push_back(i);
  }
  EXPECT_EQ(middle_of(values).low, 1.0);
  EXPECT_EQ(middle_of(values).high, 39.0);
  for (int i = 40; i <= 79; ++i) {
    values.push_back(i);
  }
  EXPECT_EQ(middle_of(values).low, 2.0);
  EXPECT_EQ(middle_of(values).high, 78.0);
}

// The bound by its definition: the least S at which the average over all bets, computed from every
// round anew, does not exceed 1 / alpha.
double plain_bound(const std::vector<double>& values, double alpha) {
  const auto exceeds = [&](double total) {
    double average = 0.0;
    double rate = 0.9;
    for (int k = 1; k <= 48; ++k, rate /= std::sqrt(2.0)) {
      double log = 0.0;
      double sum = 0.0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double prediction = i == 0 ? 0.0 : std::min(1.0, sum / static_cast<double>(i));
        const double y = values[i] - prediction;
        log += rate * values[i] - (-std::log(1.0 - rate) - rate) * y * y;
        sum += values[i];
      }
      average += std::exp(log - rate * total) / (k * (k + 1.0));
    }
    return average > 1.0 / alpha;
  };
  double low = -1000.0;
  double high = std::accumulate(values.begin(), values.end(), 0.0);
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2.0;
    (exceeds(middle) ? low : high) = middle;
  }
  return std::max(0.0, high / static_cast<double>(values.size()));
}

TEST(ConfidenceSequence, TheBoundIsThatOfItsDefinition) {
  std::vector<double> values;
  RunningLowerBound bound;
  EXPECT_EQ(bound.bound(0.025), 0.0);
  for (std::size_t i = 0; i < 300; ++i) {
    Rng rng(3, Stream::kTest, i);
    values.push_back(rng.chance(0.3) ? 5.0 * rng.uniform() : 0.0);
    bound.add(values.back());
    if (i % 60 == 59) {
      EXPECT_NEAR(bound.bound(0.025), plain_bound(values, 0.025), 1e-9);
      EXPECT_GT(bound.bound(0.025), bound.bound(0.001));
    }
  }
  EXPECT_GT(bound.bound(0.025), 0.3);
}

// The value changes halfway, weights reach 40 although nobody said so, and every round looks.
TEST(ConfidenceSequence, HoldsOverTheWholePathWithoutABoundOnTheWeights) {
  const int paths = repeats(60, 1000);
  int missed = 0;
  double last_width = 0.0;
  for (int path = 0; path < paths; ++path) {
    ConfidenceSequence sequence(0.0, 1.0);
    double total = 0.0;
    bool held = true;
    for (int t = 1; t <= 2000; ++t) {
      Rng rng(test_seed() + 4, Stream::kTest, static_cast<std::uint64_t>(path),
              static_cast<std::uint32_t>(t));
      const double truth = t <= 1000 ? 0.2 : 0.6;
      const double weight =
          rng.chance(0.025) ? 0.5 / 0.025 * 2.0 * (rng.chance(0.5) ? 1.0 : 0.0) : 0.5 / 0.975;
      sequence.add(weight, rng.chance(truth) ? 1.0 : 0.0);
      total += truth;
      if (t < 50 || t % 100 == 0) {
        held = held && sequence.interval().contains(total / t);
      }
    }
    missed += held ? 0 : 1;
    last_width += (sequence.interval().high - sequence.interval().low) / paths;
  }
  EXPECT_LE(missed, paths / 20);
  EXPECT_LT(last_width, 0.6);
}

TEST(ConfidenceSequence, RefusesRewardsBeyondTheirRange) {
  ConfidenceSequence sequence(0.0, 2.0);
  sequence.add(1.0, 2.0);
  expect_error(ErrorKind::kInput, "reward: expected a number in [0, 2], found 2.5",
               [&] { sequence.add(1.0, 2.5); });
  expect_error(ErrorKind::kInput, "reward: expected", [&] { sequence.add(1.0, std::nan("")); });
  expect_error(ErrorKind::kInput, "expected a number of at least 0",
               [&] { sequence.add(-1.0, 1.0); });
}

}  // namespace
}  // namespace mcnb::intervals_test
