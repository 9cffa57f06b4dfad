#include "mcnb/numeric/kernel_ridge.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <sstream>

#include "tests/numeric/plain_network.h"

namespace mcnb::kernel_ridge_test {
namespace {

using plain::expect_error;
using plain::OwnFeatures;

constexpr double kTolerance = 1e-9;

struct OwnSample {
  OwnFeatures features;
  float reward = 0.0F;

  Sample view() const { return {features.view(), reward}; }
};

// Kernel ridge regression in textbook form: whole vectors and a full matrix, solved each time.
KernelPrediction plain_prediction(const std::vector<OwnSample>& samples, const Features& point,
                                  double bandwidth, double lambda, const NetworkShape& shape) {
  const auto kernel = [&](const Features& a, const Features& b) {
    const double distance = plain::distance(plain::dense(shape, a), plain::dense(shape, b));
    return std::exp(-distance * distance / (2.0 * bandwidth * bandwidth));
  };
  const auto count = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixXd matrix(count, count);
  Eigen::VectorXd k(count);
  Eigen::VectorXd rewards(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const OwnSample& sample = samples[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < count; ++j) {
      matrix(i, j) =
          kernel(sample.features.view(), samples[static_cast<std::size_t>(j)].features.view());
    }
    k[i] = kernel(sample.features.view(), point);
    rewards[i] = sample.reward;
  }
  if (count == 0) {
    return {0.0, 1.0 / std::sqrt(lambda)};
  }
  const Eigen::MatrixXd ridge = matrix + lambda * Eigen::MatrixXd::Identity(count, count);
  const Eigen::FullPivLU<Eigen::MatrixXd> solver(ridge);
  return {k.dot(solver.solve(rewards)),
          std::sqrt(std::max(0.0, 1.0 - k.dot(solver.solve(k))) / lambda)};
}

void expect_textbook(const KernelRidge& ridge, const std::vector<OwnSample>& samples,
                     std::span<const Features> points, double bandwidth, double lambda,
                     const NetworkShape& shape, double tolerance = kTolerance) {
  std::vector<KernelPrediction> predictions(points.size());
  ridge.predict(points, predictions);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const KernelPrediction expected =
        plain_prediction(samples, points[i], bandwidth, lambda, shape);
    ASSERT_NEAR(predictions[i].estimate, expected.estimate, tolerance) << samples.size();
    // Compare squares, because a square root magnifies the rounding errors of tiny numbers.
    ASSERT_NEAR(predictions[i].uncertainty * predictions[i].uncertainty * lambda,
                expected.uncertainty * expected.uncertainty * lambda, tolerance);
  }
}

OwnSample draw_sample(Rng& rng, std::size_t count, std::uint32_t offset = 0) {
  return {{plain::draw(rng, count), offset}, static_cast<float>(rng.uniform())};
}

std::string saved(const KernelRidge& ridge) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  ridge.save(writer);
  writer.finish();
  return out.str();
}

void load(KernelRidge& ridge, const std::string& state, const NetworkShape& shape,
          std::size_t limit = KernelRidge::kMostSamples) {
  std::istringstream in(state);
  StateReader reader(in, "state", {.kind = "test"});
  ridge.load(reader, shape, limit);
  reader.finish();
}

TEST(KernelRidge, KnowsNothingWithoutSamples) {
  const KernelRidge ridge(1.0, 4.0);
  Rng rng(1, Stream::kTest);
  const OwnFeatures x{plain::draw(rng, 3)};
  KernelPrediction prediction;
  const Features point = x.view();
  ridge.predict({&point, 1}, {&prediction, 1});
  EXPECT_EQ(prediction.estimate, 0.0);
  EXPECT_EQ(prediction.uncertainty, 0.5);
}

TEST(KernelRidge, FollowsTheTextbookWhileSamplesJoinAndLeave) {
  for (const double lambda : {1.0, 0.01}) {
    for (const double bandwidth : {0.3, 2.0}) {
      const NetworkShape shape{.inputs = 4};
      KernelRidge ridge(bandwidth, lambda);
      std::vector<OwnSample> samples;
      Rng rng(2, Stream::kTest);
      for (int step = 0; step < 300; ++step) {
        // Also removes samples at both ends, until none is left, and then adds new ones.
        const bool leaves = !samples.empty() && (step % 100 > 60 || rng.chance(0.3));
        if (leaves) {
          const std::size_t position = step % 7 == 0 ? samples.size() - 1
                                       : step % 5 == 0
                                           ? 0
                                           : static_cast<std::size_t>(rng.below(samples.size()));
          ridge.remove(position);
          samples.erase(samples.begin() + static_cast<std::ptrdiff_t>(position));
        } else {
          samples.push_back(draw_sample(rng, 4));
          ridge.add(samples.back().view());
        }
        ASSERT_EQ(ridge.size(), samples.size());
        const OwnFeatures x{plain::draw(rng, 4)};
        const OwnFeatures y{plain::draw(rng, 4)};
        const std::vector<Features> points = {x.view(), y.view()};
        expect_textbook(ridge, samples, points, bandwidth, lambda, shape);
      }
    }
  }
}

TEST(KernelRidge, BlocksAreAsFarApartAsTheWholeVectors) {
  const NetworkShape shape{.inputs = 12};
  KernelRidge ridge(1.0, 0.5);
  std::vector<OwnSample> samples;
  Rng rng(3, Stream::kTest);
  for (int step = 0; step < 60; ++step) {
    const std::size_t count = 1 + static_cast<std::size_t>(rng.below(12));
    const auto offset = static_cast<std::uint32_t>(rng.below(13 - count));
    samples.push_back(draw_sample(rng, count, offset));
    ridge.add(samples.back().view());
    const OwnFeatures x{plain::draw(rng, 4), static_cast<std::uint32_t>(rng.below(9))};
    const Features point = x.view();
    expect_textbook(ridge, samples, {&point, 1}, 1.0, 0.5, shape);
  }
}

TEST(KernelRidge, StaysExactThroughThousandsOfReplacementsOfCloseSamples) {
  const NetworkShape shape{.inputs = 2};
  const double lambda = 1e-3;
  KernelRidge ridge(1.0, lambda);
  std::vector<OwnSample> samples;
  Rng rng(4, Stream::kTest);
  for (int step = 0; step < 5000; ++step) {
    if (samples.size() == 30) {
      const auto position = static_cast<std::size_t>(rng.below(samples.size()));
      ridge.remove(position);
      samples.erase(samples.begin() + static_cast<std::ptrdiff_t>(position));
    }
    samples.push_back(draw_sample(rng, 2));
    if (step % 3 == 0 && samples.size() > 1) {
      samples.back().features = samples.front().features;  // K alone is singular
    }
    ridge.add(samples.back().view());
  }
  const std::vector<Features> points = {samples[0].features.view(), samples[20].features.view()};
  expect_textbook(ridge, samples, points, 1.0, lambda, shape);
  EXPECT_EQ(ridge.repair_count(), 0U);  // rotations do not drift
}

TEST(KernelRidge, RepairsAFactorThatIsNotTrueAnyMore) {
  const NetworkShape shape{.inputs = 3};
  KernelRidge ridge(1.0, 0.5);
  std::vector<OwnSample> samples;
  Rng rng(5, Stream::kTest);
  for (int i = 0; i < 20; ++i) {
    samples.push_back(draw_sample(rng, 3));
    ridge.add(samples.back().view());
  }
  // Save the state again, with every entry of L below the diagonal off by 1e-8.
  std::istringstream in(saved(ridge));
  StateReader reader(in, "state", {.kind = "test"});
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  for (int i = 0; i < 4; ++i) {
    writer.write(reader.read<std::uint64_t>());
  }
  for (int i = 0; i < 20; ++i) {
    writer.write(reader.read<std::uint32_t>());
    writer.write(reader.read<float>());
    writer.write_all(reader.read_all<float>(3));
    std::vector<double> column = reader.read_all<double>(20);
    for (std::size_t j = 1; j < column.size(); ++j) {
      column[j] += 1e-8;
    }
    writer.write_all(column);
    writer.write(reader.read<double>());
  }
  writer.finish();
  KernelRidge damaged(1.0, 0.5);
  load(damaged, out.str(), shape);
  const std::vector<Features> points = {samples[3].features.view(), samples[7].features.view()};
  for (int step = 0; step < 25; ++step) {
    damaged.remove(10);
    samples.erase(samples.begin() + 10);
    samples.push_back(draw_sample(rng, 3));
    damaged.add(samples.back().view());
  }
  EXPECT_EQ(damaged.repair_count(), 1U);
  expect_textbook(damaged, samples, points, 1.0, 0.5, shape, 1e-13);
}

TEST(KernelRidge, ALoadedOneGoesOnBitForBit) {
  const NetworkShape shape{.inputs = 5};
  KernelRidge ridge(0.7, 0.1);
  Rng rng(6, Stream::kTest);
  for (int i = 0; i < 45; ++i) {
    ridge.add(draw_sample(rng, 5).view());
  }
  KernelRidge copy(0.7, 0.1);
  load(copy, saved(ridge), shape);
  for (int i = 0; i < 40; ++i) {
    const auto position = static_cast<std::size_t>(rng.below(ridge.size()));
    const OwnSample sample = draw_sample(rng, 5);
    for (KernelRidge* each : {&ridge, &copy}) {
      each->remove(position);
      each->add(sample.view());
      each->add(sample.view());
    }
    ASSERT_TRUE(saved(copy) == saved(ridge));
  }
}

TEST(KernelRidge, RefusesStatesThatNoneCouldHaveSaved) {
  const NetworkShape shape{.inputs = 2};
  const auto state = [](float value, std::uint32_t offset, std::vector<double> column, double z,
                        float reward) {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    for (const std::uint64_t number : {0, 0, 0, 1}) {
      writer.write(number);
    }
    writer.write(offset);
    writer.write(reward);
    writer.write_all(std::vector<float>{value});
    writer.write_all(column);
    writer.write(z);
    writer.finish();
    return out.str();
  };
  const auto refused = [&](const std::string& words, const std::string& text,
                           std::size_t limit = 10) {
    KernelRidge ridge(1.0, 3.0);
    expect_error(ErrorKind::kCorrupt, words, [&] { load(ridge, text, shape, limit); });
  };
  KernelRidge good(1.0, 3.0);
  load(good, state(1.0F, 1, {2.0}, 0.5, 1.0F), shape, 1);
  EXPECT_EQ(good.size(), 1U);
  const double nan = std::nan("");
  refused("more samples", state(1.0F, 1, {2.0}, 0.5, 1.0F), 0);
  refused("a sample", state(1.0F, 2, {2.0}, 0.5, 1.0F));
  refused("a sample", state(static_cast<float>(nan), 1, {2.0}, 0.5, 1.0F));
  refused("a sample", state(1.0F, 1, {2.0}, 0.5, static_cast<float>(nan)));
  refused("a column", state(1.0F, 1, {}, 0.5, 1.0F));
  refused("a column", state(1.0F, 1, {nan}, 0.5, 1.0F));
  refused("a column", state(1.0F, 1, {0.0}, 0.5, 1.0F));
  refused("a column", state(1.0F, 1, {2.0}, nan, 1.0F));
  refused("a row", state(1.0F, 1, {2.001}, 0.5, 1.0F));
  refused("list is longer", state(1.0F, 1, {2.0, 2.0}, 0.5, 1.0F));
}

}  // namespace
}  // namespace mcnb::kernel_ridge_test
