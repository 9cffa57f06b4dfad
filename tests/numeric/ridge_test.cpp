#include "mcnb/numeric/ridge.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <limits>
#include <sstream>

#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/ridge_kernels.h"
#include "tests/numeric/plain_network.h"
#include "tests/numeric/ridge_cases.h"

namespace mcnb::ridge_test {
namespace {

using plain::expect_error;
using ridge_cases::Batch;
using ridge_cases::drift;
using ridge_cases::expect_matches;
using ridge_cases::expect_same_bits;
using ridge_cases::load;
using ridge_cases::RankThree;
using ridge_cases::relative_error;
using ridge_cases::save;

TEST(Ridge, KnowsNothingAtFirst) {
  const RidgeState state(3, 4.0);
  EXPECT_EQ(state.dimension(), 3U);
  EXPECT_EQ(state.lambda(), 4.0);
  EXPECT_EQ(state.sample_count(), 0U);
  const std::vector<float> x = {2.0F, 0.0F, 0.0F};
  EXPECT_EQ(state.estimate(x), 0.0);
  EXPECT_EQ(state.uncertainty(x), 1.0);  // sqrt(2 * 2 / lambda)
}

TEST(Ridge, MatchesADirectSolveOverHundredsOfSamples) {
  Rng rng(1, Stream::kTest);
  for (const std::size_t dimension : {1U, 2U, 10U, 33U}) {
    for (const double lambda : {0.01, 1.0, 50.0}) {
      RidgeState state(dimension, lambda);
      Batch batch(dimension, lambda);
      for (int i = 1; i <= 500; ++i) {
        const std::vector<float> x = plain::draw(rng, dimension);
        const double reward = rng.normal();
        state.add(x, reward);
        batch.add(x, reward);
        if (i == 1 || i == 7 || i == 100 || i == 500) {
          SCOPED_TRACE(testing::Message() << dimension << ", " << lambda << ", " << i);
          expect_matches(state, batch, 1e-9);
          const std::vector<float> other = plain::draw(rng, dimension);
          const double expected = batch.uncertainty(other);
          EXPECT_NEAR(state.uncertainty(other), expected, 1e-9 * expected);
          EXPECT_NEAR(state.estimate(other), batch.estimate(other), 1e-9);
        }
      }
      EXPECT_EQ(state.repair_count(), 0U);
    }
  }
}

TEST(Ridge, UncertaintyShrinksWhereSamplesAre) {
  RidgeState state(2, 1.0);
  const std::vector<float> seen = {1.0F, 0.0F};
  const std::vector<float> unseen = {0.0F, 1.0F};
  for (int i = 1; i <= 20; ++i) {
    state.add(seen, 0.5);
    EXPECT_NEAR(state.uncertainty(seen), std::sqrt(1.0 / (1.0 + i)), 1e-12);
    EXPECT_EQ(state.uncertainty(unseen), 1.0);
    EXPECT_NEAR(state.estimate(seen), 0.5 * i / (1.0 + i), 1e-12);
  }
}

TEST(Ridge, MergeIsTheSameAsAddingAll) {
  Rng rng(2, Stream::kTest);
  RidgeState a(6, 0.5);
  RidgeState b(6, 0.5);
  const RidgeState nothing(6, 0.5);
  Batch batch(6, 0.5);
  for (int i = 0; i < 200; ++i) {
    const std::vector<float> x = plain::draw(rng, 6);
    const double reward = rng.uniform();
    (i % 3 == 0 ? a : b).add(x, reward);
    batch.add(x, reward);
  }
  a.merge(b);
  expect_matches(a, batch, 1e-11);
  a.merge(nothing);
  expect_matches(a, batch, 1e-11);
  const std::vector<float> x = plain::draw(rng, 6);
  a.add(x, 1.0);
  batch.add(x, 1.0);
  expect_matches(a, batch, 1e-11);
}

TEST(Ridge, ManyAreMergedAndRemovedAtOnce) {
  Rng rng(12, Stream::kTest);
  const double lambda = 0.1;
  std::vector<RidgeState> parts(9, RidgeState(4, lambda));
  Batch all(4, lambda);
  Batch odd(4, lambda);
  for (std::size_t i = 0; i < 300; ++i) {
    const std::vector<float> x = plain::draw(rng, 4);
    const double reward = rng.uniform();
    const std::size_t part = i % 8;  // the last one stays empty
    parts[part].add(x, reward);
    all.add(x, reward);
    if (part % 2 == 1) {
      odd.add(x, reward);
    }
  }
  std::vector<const RidgeState*> every;
  std::vector<const RidgeState*> even;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    every.push_back(&parts[part]);
    if (part % 2 == 0) {
      even.push_back(&parts[part]);
    }
  }
  RidgeState state(4, lambda);
  state.merge(every);
  expect_matches(state, all, 1e-11);
  state.remove(even);
  expect_matches(state, odd, 1e-11);
  const std::vector<float> x = plain::draw(rng, 4);
  state.add(x, 1.0);
  odd.add(x, 1.0);
  expect_matches(state, odd, 1e-11);
  state.merge(std::span<const RidgeState* const>());
  expect_matches(state, odd, 1e-11);
}

TEST(Ridge, RemovingAllLeavesNothing) {
  Rng rng(13, Stream::kTest);
  RidgeState other(3, 2.0);
  for (int i = 0; i < 50; ++i) {
    other.add(plain::draw(rng, 3), rng.uniform());
  }
  RidgeState state(3, 2.0);
  state.merge(other);
  const RidgeState* const part = &other;
  state.remove(std::span(&part, 1));
  EXPECT_EQ(state.sample_count(), 0U);
  const std::vector<float> x = plain::draw(rng, 3);
  EXPECT_NEAR(state.estimate(x), 0.0, 1e-12);
  EXPECT_NEAR(state.uncertainty(x), RidgeState(3, 2.0).uncertainty(x), 1e-12);
}

TEST(Ridge, PredictionsOfAnyLengthAreWhatTheirPartsSay) {
  Rng rng(14, Stream::kTest);
  for (const std::size_t dimension : {1U, 63U, 64U, 65U, 130U}) {  // on and off the stack
    RidgeState state(dimension, 1.0);
    for (int i = 0; i < 20; ++i) {
      state.add(plain::draw(rng, dimension), rng.uniform());
    }
    const std::vector<float> x = plain::draw(rng, dimension);
    const Eigen::VectorXd v = Batch::vector_of(x);
    const RidgePrediction said = state.predict(x);
    EXPECT_NEAR(said.estimate, v.dot(state.weights()), 1e-12);
    EXPECT_NEAR(said.uncertainty, std::sqrt(v.dot(state.inverse() * v)), 1e-12);
    EXPECT_EQ(said.estimate, state.estimate(x));
    EXPECT_EQ(said.uncertainty, state.uncertainty(x));
    const std::size_t matrices = dimension > kernels::kSmallRidge ? 1 : 2;  // or two halves
    EXPECT_GE(state.memory_bytes(), matrices * dimension * dimension * sizeof(double));
  }
}

TEST(RidgeDeathTest, GivingUpMoreSamplesThanThereAreIsABug) {
  RidgeState state(2, 1.0);
  RidgeState other(2, 1.0);
  other.add(std::vector<float>{1.0F, 0.0F}, 1.0);
  const RidgeState* const part = &other;
  EXPECT_DEATH(state.remove(std::span(&part, 1)), "no more samples than it has");
}

TEST(RidgeDeathTest, MergingStatesOfDifferentKindsIsABug) {
  RidgeState state(3, 1.0);
  EXPECT_DEATH(state.merge(RidgeState(4, 1.0)), "the same dimension and lambda");
  EXPECT_DEATH(state.merge(RidgeState(3, 2.0)), "the same dimension and lambda");
}

// ---- the guard

// Large samples and a small lambda: the rank-one updates lose digits, and the guard sees it.
TEST(Ridge, GuardComputesAnInverseThatDriftsAnew) {
  Rng rng(3, Stream::kTest);
  for (const double lambda : {1e-2, 1e-6, 1e-12}) {
    RidgeState state(8, lambda);
    Batch batch(8, lambda);
    Eigen::MatrixXd unguarded = Eigen::MatrixXd::Identity(8, 8) / lambda;
    for (int i = 0; i < 300; ++i) {
      const std::vector<float> x = plain::draw(rng, 8, 1e8);
      state.add(x, rng.uniform());
      batch.add(x, 0.0);
      const Eigen::VectorXd v = batch.x.row(i);
      const Eigen::VectorXd u = unguarded * v;
      unguarded -= u * u.transpose() / (1.0 + v.dot(u));
    }
    EXPECT_GT(state.repair_count(), 0U) << lambda;
    EXPECT_LT(state.repair_count(), 30U) << lambda << ": a repair lasts";
    EXPECT_LT(drift(state), 1e-9) << lambda;
    EXPECT_LT(relative_error(state.inverse(), batch.matrix().inverse()), 1e-9) << lambda;
    EXPECT_GT((batch.matrix() * unguarded - Eigen::MatrixXd::Identity(8, 8)).norm(), 1e-9)
        << lambda << ": no need for a guard";
  }
}

// Most directions are never seen, so M is badly conditioned and a fresh inverse drifts at once:
// repairs must not come with every sample, and what the state says must stay right all the same.
TEST(Ridge, GuardRepairsAtMostOnceInAsManySamplesAsDimensions) {
  constexpr std::size_t kDimension = 20;
  constexpr double kLambda = 1e-4;
  Rng rng(7, Stream::kTest);
  const RankThree directions(rng, kDimension);
  RidgeState state(kDimension, kLambda);
  Batch batch(kDimension, kLambda);
  std::uint64_t repairs = 0;
  int last_repair = -static_cast<int>(kDimension);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<float> x = directions.draw(rng);
    const double reward = rng.uniform();
    state.add(x, reward);
    batch.add(x, reward);
    ASSERT_LE(state.repair_count(), repairs + 1);
    if (state.repair_count() > repairs) {
      ASSERT_GE(i - last_repair, static_cast<int>(kDimension));
      repairs = state.repair_count();
      last_repair = i;
    }
    if (i % 100 == 99) {
      EXPECT_LT(relative_error(state.inverse(), batch.matrix().inverse()), 1e-6) << i;
      EXPECT_LT(relative_error(state.weights(), batch.weights()), 1e-6) << i;
      for (const std::vector<float>& other : {directions.draw(rng), plain::draw(rng, kDimension)}) {
        const double expected = batch.uncertainty(other);
        EXPECT_NEAR(state.uncertainty(other), expected, 1e-7 * expected) << i;
        EXPECT_NEAR(state.estimate(other), batch.estimate(other), 1e-8) << i;
      }
    }
  }
  EXPECT_GT(repairs, 20U) << "no need to hold the guard back";
}

// Fewer samples than dimensions, so large that M, in double precision, is singular.
TEST(Ridge, UncertaintyOfUnseenDirectionsSurvivesHugeSamples) {
  for (const double lambda : {1.0, 1e-3, 1e-6}) {
    for (const float size : {1e3F, 1e6F, 1e10F, 1e18F, 1e30F}) {
      SCOPED_TRACE(testing::Message() << "lambda " << lambda << ", size " << size);
      Rng rng(4, Stream::kTest);
      RidgeState state(8, lambda);
      Eigen::MatrixXd samples(8, 3);
      std::vector<float> x(8);
      for (int i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 8; ++j) {
          x[j] = size * static_cast<float>(rng.normal());
          samples(static_cast<Eigen::Index>(j), i) = static_cast<double>(x[j]) / size;
        }
        state.add(x, 0.5);
        ASSERT_TRUE(state.inverse().allFinite());
        ASSERT_TRUE(state.weights().allFinite());
      }
      // A direction orthogonal to all samples keeps its initial uncertainty.
      const Eigen::MatrixXd q =
          samples.householderQr().householderQ() * Eigen::MatrixXd::Identity(8, 3);
      const Eigen::VectorXd ones = Eigen::VectorXd::Ones(8);
      const double expected = (ones - q * (q.transpose() * ones)).norm() / std::sqrt(lambda);
      EXPECT_NEAR(state.uncertainty(std::vector<float>(8, 1.0F)), expected, 2e-3 * expected);
      RidgeState merged(8, lambda);
      merged.merge(state);
      EXPECT_NEAR(merged.uncertainty(std::vector<float>(8, 1.0F)), expected, 2e-3 * expected);
    }
  }
}

// ---- refusals

TEST(Ridge, ImpossibleSizesAreRefused) {
  expect_error(ErrorKind::kUsage, "dimension", [] { RidgeState(0, 1.0); });
  expect_error(ErrorKind::kUsage, "dimension", [] { RidgeState(16'385, 1.0); });
  expect_error(ErrorKind::kUsage, "dimension", [] { RidgeState(~std::size_t{0}, 1.0); });
  for (const double lambda : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_error(ErrorKind::kUsage, "lambda", [&] { RidgeState(2, lambda); });
  }
}

TEST(Ridge, BadSamplesAreRefusedAndChangeNothing) {
  RidgeState state(3, 1.0);
  state.add(std::vector<float>{1.0F, 2.0F, 3.0F}, 1.0);
  const RidgeState before = state;
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> bad = {{},
                                               {1.0F, 2.0F},
                                               {1.0F, 2.0F, 3.0F, 4.0F},
                                               {std::nanf(""), 0.0F, 0.0F},
                                               {0.0F, infinity, 0.0F},
                                               {0.0F, 0.0F, -infinity}};
  for (const std::vector<float>& x : bad) {
    expect_error(ErrorKind::kInput, "features", [&] { state.add(x, 1.0); });
    expect_error(ErrorKind::kInput, "features", [&] { static_cast<void>(state.estimate(x)); });
    expect_error(ErrorKind::kInput, "features", [&] { static_cast<void>(state.uncertainty(x)); });
  }
  for (const double reward : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    expect_error(ErrorKind::kInput, "reward", [&] {
      state.add(std::vector<float>{1.0F, 2.0F, 3.0F}, reward);
    });
  }
  expect_same_bits(state, before);
}

TEST(Ridge, ASampleOfZerosTeachesNothing) {
  RidgeState state(3, 2.0);
  state.add(std::vector<float>(3, 0.0F), 1.0);
  EXPECT_EQ(state.sample_count(), 1U);
  EXPECT_EQ(state.repair_count(), 0U);
  EXPECT_EQ(state.estimate(std::vector<float>(3, 1.0F)), 0.0);
}

// ---- saved states

TEST(Ridge, LoadsBitForBitWhatWasSavedAndGoesOnAlike) {
  Rng rng(5, Stream::kTest);
  RidgeState state(7, 1e-6);
  for (int i = 0; i < 50; ++i) {
    state.add(plain::draw(rng, 7, 100.0), rng.uniform());
  }
  ASSERT_GT(state.repair_count(), 0U);
  RidgeState loaded = load(save(state));
  expect_same_bits(loaded, state);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> x = plain::draw(rng, 7);
    state.add(x, 0.5);
    loaded.add(x, 0.5);
  }
  expect_same_bits(loaded, state);
}

TEST(Ridge, DamagedStatesAreRefused) {
  Rng rng(6, Stream::kTest);
  RidgeState state(3, 1.0);
  state.add(plain::draw(rng, 3), 1.0);
  const std::string bytes = save(state);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(damaged); });
    expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(bytes.substr(0, i)); });
  }
}

TEST(Ridge, StatesThatNoRidgeWouldHaveWrittenAreRefused) {
  struct Fields {
    std::uint64_t dimension = 2;
    double lambda = 1.0;
    std::vector<double> numbers = std::vector<double>(4 + 4 + 2 + 2, 1.0);
  };
  const auto load_fields = [](const Fields& fields) {
    std::ostringstream out;
    StateWriter writer(out, "test", {.kind = "ridge"});
    writer.write(fields.dimension);
    writer.write(fields.lambda);
    writer.write(std::uint64_t{1});  // sample
    writer.write(std::uint64_t{0});  // repairs
    writer.write(std::uint64_t{1});  // sample since
    writer.write_bytes(fields.numbers.data(), fields.numbers.size() * sizeof(double));
    writer.finish();
    return load(out.str());
  };
  EXPECT_EQ(load_fields({}).sample_count(), 1U);
  for (const std::uint64_t dimension :
       {std::uint64_t{0}, std::uint64_t{16'385}, ~std::uint64_t{0}}) {
    expect_error(ErrorKind::kCorrupt, "impossible", [&] { load_fields({.dimension = dimension}); });
  }
  for (const double lambda : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    expect_error(ErrorKind::kCorrupt, "impossible", [&] { load_fields({.lambda = lambda}); });
  }
  for (std::size_t i = 0; i < 12; ++i) {
    Fields fields;
    fields.numbers[i] = i % 2 == 0 ? std::nan("") : HUGE_VAL;
    expect_error(ErrorKind::kCorrupt, "not finite", [&] { load_fields(fields); });
  }
}

// ---- the kernels of small states

struct PlainRidge {
  Eigen::MatrixXd m;
  Eigen::MatrixXd inverse;
  Eigen::VectorXd b;
  Eigen::VectorXd w;
};

TEST(Ridge, SamplesAreAddedLikeInThePlainFormulas) {
  for (const std::string& target : kernels::simd_targets()) {
    const plain::SimdTargetInScope scope(target);
    for (Eigen::Index n = 1; n <= static_cast<Eigen::Index>(kernels::kSmallRidge); ++n) {
      SCOPED_TRACE(testing::Message() << target << " " << n);
      Rng rng(1, Stream::kTest, static_cast<std::uint64_t>(n));
      const auto draw = [&](Eigen::Index) { return rng.normal(); };
      const Eigen::MatrixXd root = Eigen::MatrixXd::NullaryExpr(n, n, [&] { return draw(0); });
      PlainRidge state;
      state.m = Eigen::MatrixXd::Identity(n, n) + root * root.transpose();
      state.inverse = state.m.inverse();
      state.b = Eigen::VectorXd::NullaryExpr(n, draw);
      state.w = Eigen::VectorXd::Zero(n + 1);
      const Eigen::VectorXd x = Eigen::VectorXd::NullaryExpr(n, draw);
      PlainRidge moved = state;
      moved.w[n] = 42.0;
      const double drift =
          kernels::add_sample({static_cast<std::size_t>(n), moved.m.data(), moved.inverse.data(),
                               moved.b.data(), moved.w.data()},
                              x.data(), 0.75);
      const Eigen::VectorXd u = state.inverse * x;
      const Eigen::MatrixXd inverse = state.inverse - u * u.transpose() / (1.0 + x.dot(u));
      EXPECT_LT(relative_error(moved.m, state.m + x * x.transpose()), 1e-14);
      EXPECT_LT(relative_error(moved.inverse, inverse), 1e-13);
      EXPECT_LT(relative_error(moved.b, state.b + 0.75 * x), 1e-14);
      EXPECT_LT(relative_error(moved.w.head(n), moved.inverse * moved.b), 1e-12);
      EXPECT_EQ(moved.w[n], 42.0);
      EXPECT_LT(drift, 1e-20 * x.squaredNorm());
      moved.inverse *= 1.001;  // one that is off is found out
      const double wrong =
          kernels::add_sample({static_cast<std::size_t>(n), moved.m.data(), moved.inverse.data(),
                               moved.b.data(), moved.w.data()},
                              x.data(), 0.75);
      EXPECT_NEAR(wrong, (moved.m * (moved.inverse * x) - x).squaredNorm(), 1e-6 * wrong);
      EXPECT_GT(wrong, 1e-9 * x.squaredNorm());
    }
  }
}

// A point gets the same bits alone or with others, on any processor with fused multiply-add.
TEST(Ridge, PointsArePredictedTogetherWithTheBitsOfOneAlone) {
  for (const std::string& target : kernels::simd_targets()) {
    const plain::SimdTargetInScope scope(target);
    for (std::size_t n = 1; n <= kernels::kSmallRidge + 2; ++n) {
      SCOPED_TRACE(testing::Message() << target << " " << n);
      Rng rng(2, Stream::kTest, n);
      RidgeState state(n, 0.5);
      for (int i = 0; i < 5; ++i) {
        state.add(plain::draw(rng, n), rng.normal());
      }
      for (const std::size_t count : {1U, 2U, 8U, 9U, 16U, 35U}) {
        std::vector<std::vector<float>> xs;
        std::vector<const float*> points;
        for (std::size_t i = 0; i < count; ++i) {
          xs.push_back(plain::draw(rng, n));
          points.push_back(xs.back().data());
        }
        std::vector<RidgePrediction> together(count);
        state.predict(points, together);
        for (std::size_t i = 0; i < count; ++i) {
          const RidgePrediction alone = state.predict(xs[i]);
          EXPECT_EQ(together[i].estimate, alone.estimate);
          EXPECT_EQ(together[i].uncertainty, alone.uncertainty);
          const Eigen::VectorXd x = Batch::vector_of(xs[i]);
          EXPECT_NEAR(alone.estimate, x.dot(state.weights()), 1e-12);
          EXPECT_NEAR(alone.uncertainty, std::sqrt(x.dot(state.inverse() * x)), 1e-12);
        }
      }
    }
  }
}

TEST(Ridge, EveryProcessorWithFusedMultiplicationAgreesOnEveryBit) {
  std::vector<RidgeState> states;
  for (const std::string& target : kernels::simd_targets()) {
    if (!target.starts_with("avx")) {
      continue;
    }
    const plain::SimdTargetInScope scope(target);
    Rng rng(3, Stream::kTest);
    RidgeState& state = states.emplace_back(21, 0.5);
    for (int i = 0; i < 50; ++i) {
      state.add(plain::draw(rng, 21), rng.normal());
    }
    expect_same_bits(states.front(), state);
  }
}

}  // namespace
}  // namespace mcnb::ridge_test
