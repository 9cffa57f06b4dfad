#include <gtest/gtest.h>

#include <limits>

#include "mcnb/numeric/kernels.h"
#include "tests/numeric/ridge_cases.h"

// Ridge states above kSmallRidge, which collect updates before they apply them. These tests repeat
// those of ridge_test.cpp and add the cases that only large states can get wrong.
namespace mcnb::large_ridge_test {
namespace {

using plain::expect_error;
using ridge_cases::Batch;
using ridge_cases::expect_matches;
using ridge_cases::expect_same_bits;
using ridge_cases::load;
using ridge_cases::RankThree;
using ridge_cases::relative_error;
using ridge_cases::save;

// Adds the sample to both.
void add(RidgeState& state, Batch& batch, const std::vector<float>& x, double reward) {
  state.add(x, reward);
  batch.add(x, reward);
}

TEST(LargeRidge, MatchesADirectSolveOverHundredsOfSamples) {
  struct Case {
    std::size_t dimension;
    double lambda;
    std::vector<int> looks;
  };
  // Looks before, at and after the waiting updates are applied, with few and with many samples.
  const std::vector<Case> all = {{65, 0.01, {1, 15, 16, 17, 300}}, {65, 1.0, {2, 32, 33, 300}},
                                 {65, 100.0, {16, 17, 300}},       {100, 0.01, {17, 250}},
                                 {100, 100.0, {48, 250}},          {257, 0.1, {20, 290}}};
  for (const auto& [dimension, lambda, looks] : all) {
    Rng rng(1, Stream::kTest, dimension);
    RidgeState state(dimension, lambda);
    Batch batch(dimension, lambda);
    for (int i = 1; i <= looks.back(); ++i) {
      add(state, batch, plain::draw(rng, dimension), rng.normal());
      if (std::ranges::count(looks, i) == 0) {
        continue;
      }
      SCOPED_TRACE(testing::Message() << dimension << ", " << lambda << ", " << i);
      expect_matches(state, batch, 1e-9);
      const std::vector<float> other = plain::draw(rng, dimension);
      const double expected = batch.uncertainty(other);
      EXPECT_NEAR(state.uncertainty(other), expected, 1e-9 * expected);
      EXPECT_NEAR(state.estimate(other), batch.estimate(other), 1e-9);
    }
    EXPECT_EQ(state.repair_count(), 0U);
  }
}

TEST(LargeRidge, MergesAndRemovesWhatWaitsToo) {
  constexpr std::size_t kDimension = 70;
  for (const double lambda : {0.1, 10.0}) {
    Rng rng(2, Stream::kTest);
    std::vector<RidgeState> parts(5, RidgeState(kDimension, lambda));
    Batch all(kDimension, lambda);
    Batch odd(kDimension, lambda);
    for (std::size_t i = 0; i < 150; ++i) {
      const std::vector<float> x = plain::draw(rng, kDimension);
      const double reward = rng.uniform();
      const std::size_t part = i % 4;  // the last one stays empty
      parts[part].add(x, reward);
      all.add(x, reward);
      if (part % 2 == 1) {
        odd.add(x, reward);
      }
    }
    RidgeState state(kDimension, lambda);
    for (int i = 0; i < 5; ++i) {  // of its own, waiting
      const std::vector<float> x = plain::draw(rng, kDimension);
      state.add(x, 1.0);
      all.add(x, 1.0);
      odd.add(x, 1.0);
    }
    state.merge(
        std::vector<const RidgeState*>{&parts[0], &parts[1], &parts[2], &parts[3], &parts[4]});
    expect_matches(state, all, 1e-10);
    state.remove(std::vector<const RidgeState*>{&parts[0], &parts[2], &parts[4]});
    expect_matches(state, odd, 1e-10);
    for (int i = 0; i < 20; ++i) {
      add(state, odd, plain::draw(rng, kDimension), rng.uniform());
    }
    expect_matches(state, odd, 1e-10);
    RidgeState copy = state;
    state.merge(std::span<const RidgeState* const>());
    expect_matches(state, odd, 1e-10);
    copy.remove(std::vector<const RidgeState*>{&state});
    EXPECT_EQ(copy.sample_count(), 0U);
    const std::vector<float> x = plain::draw(rng, kDimension);
    EXPECT_NEAR(copy.estimate(x), 0.0, 1e-10);
    const double at_first = RidgeState(kDimension, lambda).uncertainty(x);
    EXPECT_NEAR(copy.uncertainty(x), at_first, 1e-10 * at_first);
  }
}

TEST(LargeRidge, TakesSumsOfSamples) {
  constexpr std::size_t kDimension = 66;
  Rng rng(3, Stream::kTest);
  RidgeState state(kDimension, 0.5);
  Batch batch(kDimension, 0.5);
  for (int i = 0; i < 20; ++i) {
    add(state, batch, plain::draw(rng, kDimension), rng.uniform());
  }
  Batch others(kDimension, 0.5);
  for (int i = 0; i < 90; ++i) {
    const std::vector<float> x = plain::draw(rng, kDimension);
    const double reward = rng.uniform();
    others.add(x, reward);
    batch.add(x, reward);
  }
  state.add_sums(others.x.transpose() * others.x, others.x.transpose() * others.rewards, 90);
  expect_matches(state, batch, 1e-11);
  for (int i = 0; i < 20; ++i) {
    add(state, batch, plain::draw(rng, kDimension), rng.uniform());
  }
  expect_matches(state, batch, 1e-11);
}

// ---- the guard

TEST(LargeRidge, GuardComputesAnInverseThatDriftsAnewAndTheWeightsWithIt) {
  constexpr std::size_t kDimension = 65;
  for (const double lambda : {1e-2, 1e-6, 1e-12}) {
    SCOPED_TRACE(lambda);
    Rng rng(4, Stream::kTest);
    RidgeState state(kDimension, lambda);
    Batch batch(kDimension, lambda);
    std::uint64_t repairs = 0;
    for (int i = 0; i < 400; ++i) {
      add(state, batch, plain::draw(rng, kDimension, 1e8), rng.uniform());
      if (state.repair_count() > repairs) {
        repairs = state.repair_count();
        if (i > static_cast<int>(kDimension)) {  // before, nobody can tell the weights
          EXPECT_LT(relative_error(state.weights(), batch.weights()), 1e-12) << i;
        }
      }
    }
    EXPECT_GT(repairs, 1U);
    EXPECT_LE(repairs, 400U / kDimension + 1U);
    EXPECT_LT(ridge_cases::drift(state), 1e-9);
    EXPECT_LT(relative_error(state.inverse(), batch.matrix().inverse()), 1e-9);
    EXPECT_LT(relative_error(state.weights(), batch.weights()), 1e-9);
  }
}

// Most directions are never seen, so M is badly conditioned and a fresh inverse drifts at once. The
// repairs must stay rare all the same.
TEST(LargeRidge, StaysRightWhereItIsBadlyConditioned) {
  constexpr std::size_t kDimension = 72;
  constexpr double kLambda = 1e-4;
  Rng rng(5, Stream::kTest);
  const RankThree directions(rng, kDimension);
  RidgeState state(kDimension, kLambda);
  Batch batch(kDimension, kLambda);
  std::uint64_t repairs = 0;
  int last_repair = -static_cast<int>(kDimension);
  for (int i = 0; i < 1500; ++i) {
    add(state, batch, directions.draw(rng), rng.uniform());
    ASSERT_LE(state.repair_count(), repairs + 1);
    if (state.repair_count() > repairs) {
      ASSERT_GE(i - last_repair, static_cast<int>(kDimension));
      repairs = state.repair_count();
      last_repair = i;
    }
    if (i % 300 == 299) {
      EXPECT_LT(relative_error(state.inverse(), batch.matrix().inverse()), 1e-6) << i;
      EXPECT_LT(relative_error(state.weights(), batch.weights()), 1e-6) << i;
      for (const std::vector<float>& other : {directions.draw(rng), plain::draw(rng, kDimension)}) {
        const double expected = batch.uncertainty(other);
        EXPECT_NEAR(state.uncertainty(other), expected, 1e-7 * expected) << i;
        EXPECT_NEAR(state.estimate(other), batch.estimate(other), 1e-8) << i;
      }
    }
  }
  EXPECT_GT(repairs, 5U) << "no need to hold the guard back";
}

// Fewer samples than dimensions, so large that M, in double precision, is singular; with twenty,
// the guard has looked at them.
TEST(LargeRidge, UncertaintyOfUnseenDirectionsSurvivesHugeSamples) {
  constexpr std::size_t kDimension = 66;
  for (const double lambda : {1.0, 1e-6}) {
    for (const float size : {1e3F, 1e10F, 1e30F}) {
      for (const Eigen::Index count : {3, 20}) {
        SCOPED_TRACE(testing::Message() << lambda << ", size " << size << ", " << count);
        Rng rng(6, Stream::kTest);
        RidgeState state(kDimension, lambda);
        Eigen::MatrixXd samples(kDimension, count);
        for (Eigen::Index i = 0; i < count; ++i) {
          std::vector<float> x = plain::draw(rng, kDimension);
          for (std::size_t j = 0; j < kDimension; ++j) {
            samples(static_cast<Eigen::Index>(j), i) = x[j];
            x[j] *= size;
          }
          state.add(x, 0.5);
          ASSERT_TRUE(state.weights().allFinite());
        }
        ASSERT_TRUE(state.inverse().allFinite());
        const Eigen::MatrixXd q =
            samples.householderQr().householderQ() * Eigen::MatrixXd::Identity(kDimension, count);
        const Eigen::VectorXd ones = Eigen::VectorXd::Ones(kDimension);
        const double expected = (ones - q * (q.transpose() * ones)).norm() / std::sqrt(lambda);
        const std::vector<float> x(kDimension, 1.0F);
        EXPECT_NEAR(state.uncertainty(x), expected, 2e-3 * expected);
        RidgeState merged(kDimension, lambda);
        merged.merge(state);
        EXPECT_NEAR(merged.uncertainty(x), expected, 2e-3 * expected);
      }
    }
  }
}

// ---- predictions

TEST(LargeRidge, KeepsToItsBoundsWhichDoNotGoBelowTheTruth) {
  constexpr std::size_t kDimension = 65;
  Rng rng(7, Stream::kTest);
  for (const double lambda : {1e-3, 0.3, 7.0}) {
    for (const float common : {0.0F, 1.0F, 30.0F}) {
      SCOPED_TRACE(testing::Message() << lambda << ", " << common);
      const auto draw = [&] {
        std::vector<float> x = plain::draw(rng, kDimension);
        for (float& value : x) {
          value += common;
        }
        return x;
      };
      RidgeState state(kDimension, lambda);
      RidgeState other(kDimension, lambda);
      Batch batch(kDimension, lambda);
      const auto expect_bounded = [&] {
        const Eigen::LLT<Eigen::MatrixXd> root(batch.matrix());
        for (const std::vector<float>& x : {draw(), plain::draw(rng, kDimension)}) {
          const RidgePrediction bound = state.bound(x);
          const RidgePrediction said = state.predict(x);
          const Eigen::VectorXd v = Batch::vector_of(x);
          const double truth = std::sqrt(v.dot(root.solve(v)));
          ASSERT_EQ(bound.estimate, said.estimate);
          ASSERT_LE(said.uncertainty, bound.uncertainty);
          ASSERT_GE(bound.uncertainty, truth * (1.0 - 1e-9));
          ASSERT_NEAR(said.uncertainty, truth, 1e-8 * truth);
          ASSERT_LE(bound.uncertainty, v.norm() / std::sqrt(lambda) * (1.0 + 1e-12));
        }
      };
      expect_bounded();
      for (int i = 0; i < 40; ++i) {
        add(state, batch, draw(), rng.uniform());
        expect_bounded();
      }
      const std::vector<float> x = draw();
      const Eigen::VectorXd v = Batch::vector_of(x);
      if (common == 30.0F) {  // what samples have in common is known
        EXPECT_LT(state.bound(x).uncertainty, 0.2 * v.norm() / std::sqrt(lambda));
      }
      other.add(x, 1.0);
      const double before = state.bound(x).uncertainty;
      state.merge(other);
      batch.add(x, 1.0);
      expect_bounded();
      RidgeState rest = state;
      rest.remove(std::vector<const RidgeState*>{&other});
      EXPECT_NEAR(rest.bound(x).uncertainty, before, 1e-6 * before);
      state.add_sums(v * v.transpose(), v, 1);  // the state is not told x
      batch.add(x, 1.0);
      expect_bounded();
    }
  }
}

TEST(LargeRidge, ThreadsMayAskAtOnce) {
  Rng rng(8, Stream::kTest);
  RidgeState state(90, 0.5);
  std::vector<std::vector<float>> points;
  for (int i = 0; i < 40; ++i) {
    state.add(plain::draw(rng, 90), rng.uniform());
    points.push_back(plain::draw(rng, 90));
  }
  std::vector<RidgePrediction> expected;
  for (const std::vector<float>& point : points) {
    expected.push_back(state.predict(point));
  }
  std::vector<RidgePrediction> found(points.size());
  ThreadPool threads(4);
  threads.parallel_for(points.size(), 1, [&](std::size_t i, std::size_t) {
    found[i] = state.predict(points[i]);
    found[i].estimate = state.estimate(points[i]);
  });
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(found[i].estimate, expected[i].estimate);
    EXPECT_EQ(found[i].uncertainty, expected[i].uncertainty);
  }
}

TEST(LargeRidge, EveryProcessorWithFusedMultiplicationAgreesOnEveryBit) {
  std::vector<RidgeState> states;
  for (const std::string& target : kernels::simd_targets()) {
    if (!target.starts_with("avx")) {
      continue;
    }
    const plain::SimdTargetInScope scope(target);
    Rng rng(9, Stream::kTest);
    RidgeState& state = states.emplace_back(77, 0.5);
    for (int i = 0; i < 50; ++i) {
      state.add(plain::draw(rng, 77), rng.normal());
    }
    expect_same_bits(states.front(), state);
  }
}

TEST(LargeRidge, BadSamplesAreRefusedAndChangeNothing) {
  Rng rng(10, Stream::kTest);
  RidgeState state(80, 1.0);
  const std::vector<float> good = plain::draw(rng, 80);
  state.add(good, 1.0);
  const RidgeState before = state;
  std::vector<float> no_number = good;
  no_number[79] = std::nanf("");
  std::vector<float> infinite = good;
  infinite[0] = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& x :
       {no_number, infinite, plain::draw(rng, 79), plain::draw(rng, 81)}) {
    expect_error(ErrorKind::kInput, "features", [&] { state.add(x, 1.0); });
    expect_error(ErrorKind::kInput, "features", [&] { static_cast<void>(state.estimate(x)); });
    expect_error(ErrorKind::kInput, "features", [&] { static_cast<void>(state.predict(x)); });
  }
  expect_error(ErrorKind::kInput, "reward", [&] { state.add(good, std::nan("")); });
  expect_same_bits(state, before);
}

// ---- saved states

// At every number of waiting updates, with and without repairs.
TEST(LargeRidge, LoadsBitForBitWhatWasSavedAndGoesOnAlike) {
  for (const double size : {1.0, 1e7}) {
    Rng rng(11, Stream::kTest);
    RidgeState state(65, 1e-3);
    RidgeState broken = state;
    for (int i = 0; i < 100; ++i) {
      const std::vector<float> x = plain::draw(rng, 65, size);
      const double reward = rng.uniform();
      state.add(x, reward);
      broken.add(x, reward);
      broken = load(save(broken));
      const std::vector<float> other = plain::draw(rng, 65);
      ASSERT_EQ(broken.uncertainty(other), state.uncertainty(other)) << i;
      ASSERT_EQ(broken.estimate(other), state.estimate(other)) << i;
      ASSERT_TRUE(save(broken) == save(state)) << i;
    }
    expect_same_bits(broken, state);
    EXPECT_EQ(state.repair_count() > 0, size > 1.0);
  }
}

TEST(LargeRidge, DamagedStatesAreRefused) {
  Rng rng(12, Stream::kTest);
  RidgeState state(65, 1.0);
  state.add(plain::draw(rng, 65), 1.0);
  const std::string bytes = save(state);
  for (std::size_t i = 0; i < bytes.size(); i += i < 200 ? 1 : 997) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(damaged); });
    expect_error(ErrorKind::kCorrupt, "test: ", [&] { load(bytes.substr(0, i)); });
  }
}

TEST(LargeRidge, StatesThatNoRidgeWouldHaveWrittenAreRefused) {
  struct Fields {
    std::size_t matrix_size = 65;
    double in_matrix = 1.0;
    std::uint64_t waiting = 2;
    std::size_t written = 2;
    double in_vectors = 1.0;
    std::uint64_t summed = 2;
    double in_x_sum = 1.0;
    double in_sum = 1.0;
    double in_weights = 1.0;
  };
  const auto load_fields = [](const Fields& fields) {
    constexpr std::size_t kPadded = 72;
    std::ostringstream out;
    StateWriter writer(out, "test", {.kind = "ridge"});
    writer.write(std::uint64_t{65});  // dimensions
    writer.write(1.0);                // lambda
    writer.write(std::uint64_t{2});   // samples
    SymmetricMatrix(fields.matrix_size, 1.0).save(writer);
    SymmetricMatrix(fields.matrix_size, fields.in_matrix).save(writer);
    writer.write(fields.waiting);
    std::vector<double> vectors(fields.written * kPadded, 0.0);
    vectors.front() = fields.in_vectors;
    writer.write_all(vectors);
    writer.write(std::uint64_t{0});  // repairs
    writer.write(std::uint64_t{2});  // additions since
    writer.write(fields.summed);     // samples in the sum of x
    writer.write(2.0);               // their lengths
    std::vector<double> values(65, 1.0);
    values.back() = fields.in_x_sum;
    writer.write_all(values);
    for (const double last : {fields.in_sum, fields.in_weights}) {
      values.back() = last;
      writer.write_bytes(values.data(), values.size() * sizeof(double));
    }
    writer.finish();
    return load(out.str());
  };
  const auto refused = [&](const std::string& words, const Fields& fields) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load_fields(fields); });
  };
  EXPECT_EQ(load_fields({}).sample_count(), 2U);
  refused("a symmetric matrix has another size", {.matrix_size = 57});
  refused("longer than it can be", {.matrix_size = 73});
  refused("numbers that are not finite", {.in_matrix = HUGE_VAL});
  refused("more updates of a matrix wait than can", {.waiting = 17, .written = 17});
  refused("do not fit", {.written = 1});
  refused("longer than it can be", {.written = 3});
  refused("do not fit", {.in_vectors = std::nan("")});
  refused("does not fit", {.summed = 3});
  refused("does not fit", {.in_x_sum = HUGE_VAL});
  refused("not finite", {.in_sum = HUGE_VAL});
  refused("not finite", {.in_weights = std::nan("")});
}

}  // namespace
}  // namespace mcnb::large_ridge_test
