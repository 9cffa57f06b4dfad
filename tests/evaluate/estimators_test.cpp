// Every estimator beside its formula, written once more from the papers.

#include "mcnb/evaluate/estimate/estimators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mcnb/evaluate/estimate/estimator_sums.h"
#include "mcnb/evaluate/estimate/log_health.h"
#include "mcnb/evaluate/estimate/reward_model.h"
#include "tests/evaluate/synthetic_log.h"
#include "tests/expect_error.h"
#include "tests/sanitizers.h"

namespace mcnb::estimators_test {
namespace {

// The mean of term(row) over rounds, each counted by its sample weight.
template <class Term>
double plain_mean(const std::vector<EvaluatedRow>& rows, Term term) {
  double sum = 0.0;
  double count = 0.0;
  for (const EvaluatedRow& row : rows) {
    sum += row.sample_weight * term(row);
    count += row.sample_weight;
  }
  return sum / count;
}

double plain_value(Estimator estimator, double m, const std::vector<EvaluatedRow>& rows) {
  switch (estimator) {
    case Estimator::kIps:
      return plain_mean(rows, [](const EvaluatedRow& row) { return row.weight * row.reward; });
    case Estimator::kClippedIps:
      return plain_mean(rows, [m](const EvaluatedRow& row) {
        return (row.weight > m ? m : row.weight) * row.reward;
      });
    case Estimator::kSnips:
      return plain_mean(rows, [](const EvaluatedRow& row) { return row.weight * row.reward; }) /
             plain_mean(rows, [](const EvaluatedRow& row) { return row.weight; });
    case Estimator::kDirect:
      return plain_mean(rows, [](const EvaluatedRow& row) { return row.model_policy; });
    case Estimator::kDoublyRobust:
      return plain_mean(rows, [](const EvaluatedRow& row) {
        return row.model_policy + row.weight * (row.reward - row.model_logged);
      });
    case Estimator::kSwitch:
      return plain_mean(rows, [m](const EvaluatedRow& row) {
        const double correction = row.weight * (row.reward - row.model_logged);
        return row.model_policy + (row.weight > m ? 0.0 : correction);
      });
    case Estimator::kShrinkage:
      return plain_mean(rows, [m](const EvaluatedRow& row) {
        const double shrunk =
            std::isinf(m) ? row.weight : m * row.weight / (row.weight * row.weight + m);
        return row.model_policy + shrunk * (row.reward - row.model_logged);
      });
  }
  return 0.0;
}

EstimatorSums sums_of(Estimator estimator, const std::vector<EvaluatedRow>& rows) {
  EstimatorSums sums(estimator);
  sums.add(rows);
  return sums;
}

TEST(Estimators, EqualTheirPlainFormulas) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<EvaluatedRow> rows = cases::drawn_rows(seed, 500);
    for (const Estimator estimator : kEveryEstimator) {
      for (const double parameter : {0.1, 0.7, 5.0, kNoLimit}) {
        EXPECT_NEAR(value_of(estimator, parameter, rows), plain_value(estimator, parameter, rows),
                    1e-12)
            << name_of(estimator) << " " << parameter;
      }
    }
  }
}

// Plain search: no limit among those tried has less estimated error.
TEST(Estimators, LimitsHaveTheLeastEstimatedError) {
  const std::vector<EvaluatedRow> rows = cases::drawn_rows(4, 300);
  const auto squared_error = [&](Estimator estimator, double m) {
    const double value = plain_value(estimator, m, rows);
    double squares = 0.0;
    double count = 0.0;
    for (const EvaluatedRow& row : rows) {
      const double term = plain_value(estimator, m, {row});
      squares += std::pow(row.sample_weight * (term - value), 2);
      count += row.sample_weight;
    }
    return squares / (count * count) + std::pow(value - plain_value(estimator, kNoLimit, rows), 2);
  };
  for (const Estimator estimator :
       {Estimator::kClippedIps, Estimator::kSwitch, Estimator::kShrinkage}) {
    const double chosen = sums_of(estimator, rows).limit();
    double least = squared_error(estimator, kNoLimit);
    for (int i = 0; i < 20; ++i) {
      const double base = estimator == Estimator::kShrinkage ? 4.0 : 2.0;
      least = std::min(least, squared_error(estimator, std::pow(base, i) / 8.0));
    }
    EXPECT_NEAR(squared_error(estimator, chosen), least, 1e-12) << name_of(estimator);
    EXPECT_LT(chosen, kNoLimit) << name_of(estimator);
  }
  EXPECT_EQ(sums_of(Estimator::kIps, rows).limit(), kNoLimit);
}

// Rows come in pieces of any length; long logs join their groups.
TEST(Estimators, SumsAreThoseOfThePlainFormulas) {
  for (const std::size_t count : {std::size_t{300}, 2 * GroupedFractions::kMostGroups + 77}) {
    std::vector<EvaluatedRow> rows = cases::drawn_rows(11, count);
    for (EvaluatedRow& row : rows) {
      row.sample_weight = 1.5;
    }
    for (const Estimator estimator : kEveryEstimator) {
      if (kSanitized && count > 300 && estimator != Estimator::kDoublyRobust) {
        continue;  // takes ten seconds
      }
      EstimatorSums sums(estimator);
      std::span<const EvaluatedRow> left(rows);
      for (std::size_t part = 1; !left.empty(); part = part % 700 + 3) {
        const auto now = left.first(std::min(part, left.size()));
        sums.add(now);
        left = left.subspan(now.size());
      }
      EXPECT_NEAR(sums.value(), plain_value(estimator, sums.limit(), rows), 1e-9);
      EXPECT_NEAR(sums.unlimited(), plain_value(estimator, kNoLimit, rows), 1e-9);
      EXPECT_LE(sums.groups().groups().size(), GroupedFractions::kMostGroups);
      if (estimator != Estimator::kSnips) {
        const double limit = sums.limit();
        std::vector<double> values;
        for (const EvaluatedRow& row : rows) {
          const Fraction fraction = fraction_of(estimator, limit, row);
          values.push_back(fraction.numerator / fraction.denominator);
        }
        const Interval plain = empirical_bernstein(values, 7.0);
        EXPECT_NEAR(sums.bernstein(7.0).low, plain.low, 1e-9) << name_of(estimator);
        EXPECT_NEAR(sums.bernstein(7.0).high, plain.high, 1e-9) << name_of(estimator);
      }
    }
  }
}

// Rows of one event count as one for the scatter and the bootstrap.
TEST(Estimators, RowsOfAnEventScatterTogether) {
  for (const std::size_t count : {std::size_t{300}, 2 * GroupedFractions::kMostGroups + 77}) {
    const std::vector<EvaluatedRow> rows = cases::drawn_rows(14, count);
    std::vector<char> joins(count);
    for (std::size_t i = 0; i < count; ++i) {
      joins[i] = i % 6 != 0 && Rng(15, Stream::kTest, i).chance(0.6) ? 1 : 0;
    }
    for (const Estimator estimator : {Estimator::kIps, Estimator::kSnips, Estimator::kSwitch}) {
      EstimatorSums sums(estimator);
      for (std::size_t at = 0; at < count; at += 60) {
        const std::size_t now = std::min<std::size_t>(60, count - at);
        sums.add(std::span(rows).subspan(at, now), std::span<const char>(joins).subspan(at, now));
      }
      const double limit = sums.limit();
      std::vector<Fraction> events;
      Fraction whole;
      for (std::size_t i = 0; i < count; ++i) {
        const Fraction more = fraction_of(estimator, limit, rows[i]);
        if (joins[i] == 0) {
          events.emplace_back();
        }
        events.back().numerator += more.numerator;
        events.back().denominator += more.denominator;
        whole.numerator += more.numerator;
        whole.denominator += more.denominator;
      }
      const double value = whole.numerator / whole.denominator;
      double squares = 0.0;
      for (const Fraction& event : events) {
        squares += std::pow(event.numerator - value * event.denominator, 2);
      }
      EXPECT_NEAR(sums.value(), value, 1e-9);
      EXPECT_NEAR(sums.standard_error(), std::sqrt(squares) / whole.denominator, 1e-9);
      if (count == 300) {
        const std::span<const Fraction> groups = sums.groups().groups();
        ASSERT_EQ(groups.size(), events.size());
        for (std::size_t i = 0; i < events.size(); ++i) {
          EXPECT_NEAR(groups[i].numerator, events[i].numerator, 1e-9);
        }
      }
    }
  }
}

TEST(Estimators, ARatioOfNothingIsNoValue) {
  const std::vector<EvaluatedRow> rows(3, {.weight = 0.0, .reward = 1.0});
  EXPECT_TRUE(std::isnan(value_of(Estimator::kSnips, kNoLimit, rows)));
  EXPECT_TRUE(std::isnan(sums_of(Estimator::kSnips, rows).value()));
  EXPECT_EQ(value_of(Estimator::kIps, kNoLimit, rows), 0.0);
}

TEST(Estimators, AreNamedByFlags) {
  EXPECT_EQ(parse_estimator("switch-dr"), Estimator::kSwitch);
  expect_error(ErrorKind::kUsage,
               "expected one of ips, clipped-ips, snips, dm, dr, switch-dr, dros",
               [] { parse_estimator("IPSX"); });
}

// The ridge solution by elimination, from the rounds outside the fold.
TEST(RewardModel, PredictsFromOtherFoldsOnly) {
  constexpr std::size_t kDimension = 3;
  constexpr double kLambda = 0.5;
  CrossFittedRidge model(kDimension, kLambda);
  std::vector<std::array<float, kDimension>> inputs;
  std::vector<double> rewards;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Rng rng(6, Stream::kTest, i);
    auto& input = inputs.emplace_back();
    for (float& x : input) {
      x = static_cast<float>(rng.normal());
    }
    rewards.push_back(0.5 + 0.3 * static_cast<double>(input[0]) + 0.2 * rng.normal());
    model.add(i, input, rewards.back());
  }
  const auto [lowest, highest] = std::ranges::minmax(rewards);
  for (std::uint64_t i = 0; i < 60; ++i) {
    constexpr std::size_t kSize = kDimension + 1;
    std::array<std::array<double, kSize + 1>, kSize> system{};
    for (std::size_t a = 0; a < kSize; ++a) {
      system[a][a] = kLambda;
    }
    const auto at = [&](std::size_t row, std::size_t k) {
      return k == kDimension ? 1.0 : static_cast<double>(inputs[row][k]);
    };
    for (std::size_t row = 0; row < 60; ++row) {
      if (row % CrossFittedModel::kFolds == i % CrossFittedModel::kFolds) {
        continue;
      }
      for (std::size_t a = 0; a < kSize; ++a) {
        for (std::size_t b = 0; b < kSize; ++b) {
          system[a][b] += at(row, a) * at(row, b);
        }
        system[a][kSize] += at(row, a) * rewards[row];
      }
    }
    for (std::size_t a = 0; a < kSize; ++a) {
      for (std::size_t b = 0; b < kSize; ++b) {
        const double factor = a == b ? 0.0 : system[b][a] / system[a][a];
        for (std::size_t k = 0; k <= kSize; ++k) {
          system[b][k] -= factor * system[a][k];
        }
      }
    }
    double expected = 0.0;
    for (std::size_t a = 0; a < kSize; ++a) {
      expected += at(i, a) * system[a][kSize] / system[a][a];
    }
    double found = 0.0;
    model.predict(i, inputs[i], {&found, 1});
    EXPECT_NEAR(found, std::clamp(expected, lowest, highest), 1e-9);
  }
}

// A reward that only an interaction explains: a ridge regression sees nothing in it.
TEST(RewardModel, NetworksLearnWhatRidgeRegressionsCannot) {
  constexpr std::size_t kRounds = 3000;
  CrossFittedRidge ridge(2, 1.0);
  CrossFittedNetwork network(2, 1);
  CrossFittedNetwork twin(2, 1);
  const auto input_of = [](std::uint64_t i) {
    Rng rng(12, Stream::kTest, i);
    return std::array<float, 2>{rng.chance(0.5) ? 1.0F : -1.0F, rng.chance(0.5) ? 1.0F : -1.0F};
  };
  const auto reward_of = [&](std::uint64_t i) {
    return input_of(i)[0] == input_of(i)[1] ? 1.0 : 0.0;
  };
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    ridge.add(i, input_of(i), reward_of(i));
    network.add(i, input_of(i), reward_of(i));
    twin.add(i, input_of(i), reward_of(i));
  }
  network.finish();
  twin.finish();
  for (std::uint64_t i = 0; i < 20; ++i) {
    double of_ridge = 0.0;
    double of_network = 0.0;
    double of_twin = 0.0;
    ridge.predict(i, input_of(i), {&of_ridge, 1});
    network.predict(i, input_of(i), {&of_network, 1});
    twin.predict(i, input_of(i), {&of_twin, 1});
    EXPECT_NEAR(of_ridge, 0.5, 0.1);
    EXPECT_NEAR(of_network, reward_of(i), 0.1);
    EXPECT_EQ(of_network, of_twin);
  }
}

// No network may know the reward of a round that it predicts: one round with a strange reward does
// not change what is predicted of itself.
TEST(RewardModel, NetworksPredictFromOtherFoldsOnly) {
  std::array<double, 2> predicted{};
  for (const int strange : {0, 1}) {
    CrossFittedNetwork network(2, 1);
    for (std::uint64_t i = 0; i < 200; ++i) {
      Rng rng(13, Stream::kTest, i);
      const std::array<float, 2> input{static_cast<float>(rng.normal()), 1.0F};
      network.add(i, input,
                  i % CrossFittedNetwork::kFolds == 3 && strange == 1 ? 1.0 : rng.uniform());
    }
    network.finish();
    const std::array<float, 2> input{0.3F, 1.0F};
    network.predict(3, input, {&predicted[static_cast<std::size_t>(strange)], 1});
  }
  EXPECT_EQ(predicted[0], predicted[1]);
}

TEST(LogHealth, WeightsAreJudgedAsThePlainFormulasDo) {
  const std::vector<EvaluatedRow> rows = cases::drawn_rows(7, 400);
  WeightSums weights;
  for (const EvaluatedRow& row : rows) {
    weights.add(row.weight, row.reward);
  }
  const WeightHealth health = weights.health();
  double sum = 0.0;
  double squares = 0.0;
  double largest = 0.0;
  for (const EvaluatedRow& row : rows) {
    sum += row.weight;
    squares += row.weight * row.weight;
    largest = std::max(largest, row.weight);
  }
  EXPECT_NEAR(health.effective_size, sum * sum / squares, 1e-9);
  EXPECT_NEAR(health.mean, sum / 400.0, 1e-12);
  double scatter = 0.0;
  for (const EvaluatedRow& row : rows) {
    scatter += std::pow(row.weight - sum / 400.0, 2);
  }
  EXPECT_NEAR(health.mean_interval.high - health.mean, 1.96 * std::sqrt(scatter / 399.0 / 400.0),
              1e-4);
  ASSERT_EQ(health.largest.size(), 5U);
  EXPECT_EQ(health.largest[0], largest);
  EXPECT_TRUE(std::ranges::is_sorted(health.largest, std::greater<>()));
  EXPECT_EQ(health.positive, static_cast<std::uint64_t>(std::ranges::count_if(
                                 rows, [](const EvaluatedRow& row) { return row.weight > 0.0; })));
  ASSERT_GT(health.shares.size(), 5U);
  for (const WeightShare& one : health.shares) {
    const auto at_least = std::ranges::count_if(
        rows, [&](const EvaluatedRow& row) { return row.weight >= one.weight; });
    EXPECT_EQ(one.share, static_cast<double>(at_least) / 400.0) << one.weight;
  }
  EXPECT_GT(health.shares.front().weight, 0.75 / 1.02);  // the least weight is 1 / 1.02
  EXPECT_GT(health.shares.back().weight, 0.75 * largest);
}

}  // namespace
}  // namespace mcnb::estimators_test
