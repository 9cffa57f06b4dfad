#include "mcnb/numeric/sample_sums.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <sstream>

#include "tests/numeric/plain_network.h"

namespace mcnb::sample_sums_test {
namespace {

constexpr std::size_t kDimension = 6;

// Samples, and their sums computed directly.
struct Plain {
  explicit Plain(double ridge_weight)
      : lambda(ridge_weight),
        m(ridge_weight * Eigen::MatrixXd::Identity(kDimension, kDimension)),
        b(Eigen::VectorXd::Zero(kDimension)) {}

  void add(std::span<const float> x, double reward) {
    const Eigen::VectorXd v =
        Eigen::Map<const Eigen::VectorXf>(x.data(), kDimension).cast<double>();
    m += v * v.transpose();
    b += reward * v;
  }
  Eigen::VectorXd weights() const { return m.inverse() * b; }

  double lambda;
  Eigen::MatrixXd m;
  Eigen::VectorXd b;
};

void expect_same(const SampleSums& sums, const Plain& plain) {
  const double scale = 1.0 + plain.weights().norm();
  EXPECT_LE((sums.weights(plain.lambda) - plain.weights()).norm(), 1e-10 * scale);
  const RidgeState ridge = sums.ridge(plain.lambda);
  EXPECT_EQ(ridge.sample_count(), sums.count());
  EXPECT_LE((ridge.matrix() - plain.m).norm(), 1e-12 * plain.m.norm());
  EXPECT_LE((ridge.sum() - plain.b).norm(), 1e-12 * (1.0 + plain.b.norm()));
  EXPECT_LE((ridge.weights() - plain.weights()).norm(), 1e-10 * scale);
  EXPECT_LE((ridge.inverse() * plain.m - Eigen::MatrixXd::Identity(kDimension, kDimension)).norm(),
            1e-9);
}

TEST(SampleSums, AreTheRegressionOfAnyNumberOfSamples) {
  for (const double lambda : {1.0, 0.01}) {
    Rng rng(1, Stream::kTest);
    SampleSums sums(kDimension);
    Plain plain(lambda);
    expect_same(sums, plain);
    for (std::uint64_t i = 1; i <= 40; ++i) {
      const std::vector<float> x = plain::draw(rng, kDimension);
      const auto reward = static_cast<float>(rng.uniform());
      sums.add(x, reward);
      plain.add(x, reward);
      EXPECT_EQ(sums.count(), i);
      expect_same(sums, plain);
    }
  }
}

TEST(SampleSums, OfManyOwnersTogetherAreThoseOfAllTheirSamples) {
  Rng rng(2, Stream::kTest);
  SampleSums all(kDimension);
  Plain plain(0.5);
  for (const int count : {0, 3, 14, 1, 6, 5, 20}) {  // kept, summed up, or both
    SampleSums one(kDimension);
    for (int i = 0; i < count; ++i) {
      const std::vector<float> x = plain::draw(rng, kDimension);
      const auto reward = static_cast<float>(rng.uniform());
      one.add(x, reward);
      plain.add(x, reward);
    }
    all.merge(one);
    expect_same(all, plain);
  }
  EXPECT_EQ(all.count(), 49U);
}

TEST(SampleSums, StayFiniteWhereLambdaIsLostInTheRounding) {
  for (const int count : {3, 8}) {
    SampleSums sums(kDimension);
    for (int i = 0; i < count; ++i) {
      sums.add(std::vector<float>(kDimension, 1e15F), 1.0F);
    }
    EXPECT_TRUE(sums.weights(1e-6).allFinite());
  }
}

TEST(SampleSums, TakeNoMoreMemoryThanASumHoweverManyTheyAre) {
  Rng rng(3, Stream::kTest);
  SampleSums sums(kDimension);
  std::size_t most = 0;
  for (int i = 0; i < 500; ++i) {
    sums.add(plain::draw(rng, kDimension), 1.0F);
    most = std::max(most, i < 50 ? sums.memory_bytes() : 0);
    EXPECT_LE(sums.memory_bytes(), most) << i;
  }
}

std::string saved(const TrackedWeights& weights) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  weights.save(writer);
  writer.finish();
  return out.str();
}

void load(TrackedWeights& weights, const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "state", {.kind = "test"});
  weights.load(reader);
  reader.finish();
}

// From the first sample, through the change from samples to sums, to many; and after a load.
TEST(TrackedWeights, AreThoseOfAllSamplesAfterEachOne) {
  for (const double lambda : {1e-3, 1.0}) {
    Rng rng(5, Stream::kTest);
    TrackedWeights tracked(kDimension, lambda);
    SampleSums sums(kDimension);
    for (std::size_t i = 1; i <= 20 * kDimension; ++i) {
      const std::vector<float> x = plain::draw(rng, kDimension);
      const auto reward = static_cast<float>(rng.normal());
      tracked.add(x, reward);
      sums.add(x, reward);
      const Eigen::VectorXd expected = sums.weights(lambda);
      ASSERT_LT((tracked.weights() - expected).norm(), 1e-9 * (1.0 + expected.norm())) << i;
      TrackedWeights copy(kDimension, lambda);
      load(copy, saved(tracked));
      ASSERT_TRUE(copy.weights() == tracked.weights()) << i;
      copy.add(x, reward);
      TrackedWeights on = tracked;
      on.add(x, reward);
      ASSERT_TRUE(copy.weights() == on.weights()) << i;
      TrackedWeights at_once(kDimension, lambda);
      at_once.add_many([&](SampleSums& all) { all = sums; });
      ASSERT_LT((at_once.weights() - expected).norm(), 1e-9 * (1.0 + expected.norm())) << i;
    }
  }
}

// If rounding swallows lambda, the weights come from the ridge state, which handles this case.
TEST(TrackedWeights, AreThoseOfTheRidgeStateIfRoundingSwallowsLambda) {
  TrackedWeights tracked(kDimension, 1e-6);
  SampleSums sums(kDimension);
  const std::vector<float> x(kDimension, 1e9F);
  for (std::size_t i = 0; i < 2 * kDimension + 1; ++i) {
    tracked.add(x, 1.0F);
    sums.add(x, 1.0F);
    const Eigen::VectorXd expected = i == 0 ? sums.weights(1e-6) : sums.ridge(1e-6).weights();
    ASSERT_TRUE(tracked.weights().allFinite()) << i;
    ASSERT_LE((tracked.weights() - expected).norm(), 1e-12 * expected.norm()) << i;
  }
}

TEST(TrackedWeights, StatesThatNoneWouldHaveSavedAreRefused) {
  const auto refused = [](int samples, const std::vector<double>& rows,
                          const std::vector<double>& factor) {
    Rng draws(7, Stream::kTest);
    SampleSums sums(2);
    for (int i = 0; i < samples; ++i) {
      sums.add(plain::draw(draws, 2), 1.0F);
    }
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    sums.save(writer);
    writer.write_all(rows);
    writer.write_all(factor);
    writer.finish();
    TrackedWeights weights(2, 1.0);
    try {
      load(weights, out.str());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused(1, {1.0}, {}));
  EXPECT_TRUE(refused(1, {0.0}, {}));
  EXPECT_TRUE(refused(1, {HUGE_VAL}, {}));
  EXPECT_TRUE(refused(1, {1.0, 1.0}, {}));
  EXPECT_TRUE(refused(1, {1.0}, {1.0}));
  EXPECT_FALSE(refused(3, {}, {1.0, 0.5, 0.0, 1.0}));
  EXPECT_TRUE(refused(3, {}, {1.0, 0.5, 0.0, -1.0}));
  EXPECT_TRUE(refused(3, {}, {1.0, std::nan(""), 0.0, 1.0}));
  EXPECT_TRUE(refused(3, {}, {1.0, 0.5, 0.0}));
  EXPECT_TRUE(refused(3, {1.0}, {}));
}

TEST(SampleSums, AreSavedToTheBitAndRefusedWhereTheyDoNotFit) {
  Rng rng(4, Stream::kTest);
  for (const int count : {0, 4, 6, 15}) {
    SampleSums sums(kDimension);
    for (int i = 0; i < count; ++i) {
      sums.add(plain::draw(rng, kDimension), 0.25F);
    }
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    sums.save(writer);
    writer.finish();
    const auto load = [&](SampleSums& to) {
      std::istringstream in(out.str());
      StateReader reader(in, "state", {.kind = "test"});
      to.load(reader);
      reader.finish();
    };
    SampleSums copy(kDimension);
    load(copy);
    EXPECT_EQ(copy.count(), sums.count());
    EXPECT_TRUE(copy.weights(0.1) == sums.weights(0.1));
    if (count > 0) {
      SampleSums other(kDimension + 1);
      EXPECT_THROW(load(other), Error);
    }
  }
}

}  // namespace
}  // namespace mcnb::sample_sums_test
