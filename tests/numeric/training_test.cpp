#include "mcnb/numeric/training.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "mcnb/numeric/network_pool.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::training_test {
namespace {

using plain::expect_error;
using plain::OwnFeatures;
using plain::PlainAdam;
using plain::PlainNetwork;
using plain::SimdTargetInScope;

const float kNan = std::nanf("");

// Samples that own their features.
struct OwnSamples {
  std::vector<OwnFeatures> features;
  std::vector<float> rewards;

  std::vector<Sample> view() const {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < features.size(); ++i) {
      samples.push_back({features[i].view(), rewards[i]});
    }
    return samples;
  }
};

// Dense samples, or blocks of 3 at changing offsets. Some hold a zero, which counts as met. The
// first input of dense samples is zero in all of them but the last.
OwnSamples draw_samples(Rng& rng, const NetworkShape& shape, std::size_t count, bool blocks) {
  OwnSamples samples;
  for (std::size_t i = 0; i < count; ++i) {
    const auto offset = static_cast<std::uint32_t>(blocks ? rng.below(shape.inputs - 2) : 0);
    samples.features.push_back({plain::draw(rng, blocks ? 3 : shape.inputs), offset});
    if (!blocks && i + 1 < count) {
      samples.features.back().values[0] = 0.0F;
    }
    if (i % 3 == 1) {
      samples.features.back().values[1] = 0.0F;
    }
    samples.rewards.push_back(static_cast<float>(rng.uniform()));
  }
  return samples;
}

// What training should do, and how close any step came to a kink of the network.
struct PlainTraining {
  TrainingReport report;
  double margin = 1.0;
};

PlainTraining train_plainly(PlainNetwork& network, std::span<const Sample> samples,
                            const TrainingOptions& options, Rng& rng) {
  PlainTraining training;
  TrainingReport& report = training.report;
  PlainAdam adam(network, options.learning_rate);
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double loss = 0.0;
  for (std::size_t i = 0; report.steps < options.step_limit; ++report.steps) {
    std::swap(order[i], order[i + rng.below(samples.size() - i)]);
    const Sample& sample = samples[order[i]];
    training.margin = std::min(training.margin, network.margin(sample.features));
    const double error = network.value(sample.features) - sample.reward;
    loss += 0.5 * error * error;
    if (options.optimiser == Optimiser::kAdam) {
      adam.step(network, sample.features, sample.reward);
    } else {
      network.sgd_step(sample.features, sample.reward, options.learning_rate);
    }
    if (++i == samples.size()) {
      i = 0;
      ++report.epochs;
      report.last_epoch_loss = loss / static_cast<double>(samples.size());
      loss = 0.0;
      if (report.last_epoch_loss <= options.stop_loss) {
        report.stopped_by_loss = true;
        ++report.steps;
        break;
      }
    }
  }
  return training;
}

void expect_training_matches(const NetworkShape& shape, const TrainingOptions& options, bool blocks,
                             std::uint64_t seed) {
  Rng rng(seed, Stream::kTest);
  std::vector<float> begin;
  OwnSamples samples;
  std::vector<double> expected;
  PlainTraining plain_training;
  plain_training.margin = 0.0;
  while (plain_training.margin < 1e-5) {  // until all steps are clear of kinks
    begin = plain::draw_network(rng, shape);
    samples = draw_samples(rng, shape, 7, blocks);
    PlainNetwork network(shape, begin);
    Rng order(seed, Stream::kTrainingOrder);
    plain_training = train_plainly(network, samples.view(), options, order);
    expected = network.parameters();
  }
  for (const std::string& target : kernels::simd_targets()) {
    SCOPED_TRACE(testing::Message()
                 << target << ", " << plain::describe(shape) << (blocks ? ", blocks" : ", dense"));
    const SimdTargetInScope scope(target);
    std::vector<float> network = begin;
    Rng order(seed, Stream::kTrainingOrder);
    TrainingScratch scratch;
    const TrainingReport report =
        train_network(shape, network, samples.view(), options, order, scratch);
    EXPECT_EQ(report.steps, plain_training.report.steps);
    EXPECT_EQ(report.epochs, plain_training.report.epochs);
    EXPECT_EQ(report.stopped_by_loss, plain_training.report.stopped_by_loss);
    EXPECT_NEAR(report.last_epoch_loss, plain_training.report.last_epoch_loss,
                1e-4 * plain_training.report.last_epoch_loss);
    for (std::size_t i = 0; i < network.size(); ++i) {
      ASSERT_NEAR(network[i], expected[i],
                  1e-6 * std::abs(expected[i]) + 4e-3 * options.learning_rate)
          << "parameter " << i;
    }
  }
}

TEST(Training, SgdMatchesThePlainNetwork) {
  for (const NetworkShape& shape : plain::some_shapes(6)) {
    for (const bool blocks : {false, true}) {
      expect_training_matches(
          shape,
          {.optimiser = Optimiser::kSgd, .learning_rate = 1e-3F, .step_limit = 24, .stop_loss = 0},
          blocks, 1);
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST(Training, AdamMatchesThePlainNetworkAndIsLazyOnBlocks) {
  for (const NetworkShape& shape : plain::some_shapes(6)) {
    for (const bool blocks : {false, true}) {
      expect_training_matches(
          shape,
          {.optimiser = Optimiser::kAdam, .learning_rate = 1e-3F, .step_limit = 24, .stop_loss = 0},
          blocks, 3);
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST(Training, RowsThatNoSampleMeetsAreNeverTouched) {
  Rng rng(3, Stream::kTest);
  for (const auto optimiser : {Optimiser::kSgd, Optimiser::kAdam}) {
    for (const bool biases : {false, true}) {
      const NetworkShape shape{10, 17, 3, biases};
      std::vector<float> network = plain::draw_network(rng, shape);
      const auto row = [&](std::size_t number) {
        return std::span(network).subspan(number * 17, 17);
      };
      for (const std::size_t untouched : {0U, 1U, 5U, 9U}) {  // blocks: 2 .. 4 and 6 .. 8
        std::ranges::fill(row(untouched), kNan);
      }
      OwnSamples samples = draw_samples(rng, shape, 6, true);
      for (std::size_t i = 0; i < 6; ++i) {
        samples.features[i].offset = i % 2 == 0 ? 2 : 6;
      }
      TrainingScratch scratch;
      const std::vector<float> before = network;
      train_network(shape, network, samples.view(),
                    {.optimiser = optimiser, .step_limit = 30, .stop_loss = 0}, rng, scratch);
      for (std::size_t i = 0; i < network.size(); ++i) {
        if (std::isnan(before[i])) {
          ASSERT_TRUE(plain::same_bits(network[i], before[i])) << i;
        } else {
          ASSERT_TRUE(std::isfinite(network[i])) << i;
        }
      }
      EXPECT_FALSE(plain::same_bits(network, before));
    }
  }
}

TEST(Training, InputsThatAreAlwaysZeroKeepTheBitsOfTheirWeights) {
  Rng rng(10, Stream::kTest);
  const NetworkShape shape{.inputs = 5, .width = 20};
  OwnSamples samples = draw_samples(rng, shape, 6, false);
  samples.features.back().values[0] = 0.0F;
  const std::vector<float> begin = plain::draw_network(rng, shape);
  for (const auto optimiser : {Optimiser::kSgd, Optimiser::kAdam}) {
    std::vector<float> network = begin;
    TrainingScratch scratch;
    train_network(shape, network, samples.view(),
                  {.optimiser = optimiser, .step_limit = 30, .stop_loss = 0}, rng, scratch);
    const auto row = [](const std::vector<float>& of, std::size_t number) {
      return std::span(of).subspan(number * 20, 20);
    };
    EXPECT_TRUE(plain::same_bits(row(network, 0), row(begin, 0)));
    EXPECT_FALSE(plain::same_bits(row(network, 1), row(begin, 1)));
  }
}

TEST(Training, StopsExactlyAtTheStepLimit) {
  Rng rng(4, Stream::kTest);
  const NetworkShape shape{.inputs = 4, .width = 8};
  const OwnSamples samples = draw_samples(rng, shape, 5, false);
  const std::vector<float> begin = plain::draw_network(rng, shape);
  for (const auto optimiser : {Optimiser::kSgd, Optimiser::kAdam}) {
    for (const std::uint64_t limit : {0U, 1U, 4U, 5U, 6U, 10U, 13U}) {
      std::vector<float> network = begin;
      TrainingScratch scratch;
      Rng order(1, Stream::kTrainingOrder);
      const TrainingReport report = train_network(
          shape, network, samples.view(),
          {.optimiser = optimiser, .step_limit = limit, .stop_loss = 0}, order, scratch);
      EXPECT_EQ(report.steps, limit);
      EXPECT_EQ(report.epochs, limit / 5);
      EXPECT_FALSE(report.stopped_by_loss);
      EXPECT_EQ(plain::same_bits(network, begin), limit == 0);
    }
  }
}

TEST(Training, EndsWithTheFirstEpochWhoseLossIsSmallEnough) {
  Rng rng(5, Stream::kTest);
  const NetworkShape shape{.inputs = 4, .width = 30};
  const OwnSamples samples = draw_samples(rng, shape, 5, false);
  const std::vector<float> begin = plain::draw_network(rng, shape);
  TrainingScratch scratch;
  TrainingOptions options{.learning_rate = 0.01F, .step_limit = 5000, .stop_loss = 1e-4};
  std::vector<float> network = begin;
  Rng order(1, Stream::kTrainingOrder);
  const TrainingReport report =
      train_network(shape, network, samples.view(), options, order, scratch);
  EXPECT_TRUE(report.stopped_by_loss);
  EXPECT_LE(report.last_epoch_loss, 1e-4);
  EXPECT_EQ(report.steps, 5 * report.epochs);
  EXPECT_GT(report.epochs, 2U);
  EXPECT_LT(report.steps, 5000U);
  // One epoch less would not have been enough.
  options.step_limit = report.steps - 5;
  network = begin;
  order = Rng(1, Stream::kTrainingOrder);
  const TrainingReport shorter =
      train_network(shape, network, samples.view(), options, order, scratch);
  EXPECT_FALSE(shorter.stopped_by_loss);
  EXPECT_GT(shorter.last_epoch_loss, 1e-4);
}

TEST(Training, OnSamplesThatFitAlreadyEndsAfterOneEpochAndChangesNothing) {
  Rng rng(6, Stream::kTest);
  for (const auto optimiser : {Optimiser::kSgd, Optimiser::kAdam}) {
    const NetworkShape shape{.inputs = 4, .width = 30, .depth = 3, .biases = true};
    std::vector<float> network = plain::draw_network(rng, shape);
    OwnSamples samples = draw_samples(rng, shape, 5, false);
    GradientFactors factors;
    for (std::size_t i = 0; i < 5; ++i) {
      find_gradient(shape, network, samples.features[i].view(), factors);
      samples.rewards[i] = factors.value;
    }
    const std::vector<float> before = network;
    TrainingScratch scratch;
    const TrainingReport report = train_network(
        shape, network, samples.view(), {.optimiser = optimiser, .stop_loss = 0.0}, rng, scratch);
    EXPECT_TRUE(report.stopped_by_loss);
    EXPECT_EQ(report.last_epoch_loss, 0.0);
    EXPECT_EQ(report.epochs, 1U);
    EXPECT_EQ(report.steps, 5U);
    EXPECT_TRUE(plain::same_bits(network, before));
  }
}

TEST(Training, OnNoSamplesDoesNothing) {
  Rng rng(7, Stream::kTest);
  const NetworkShape shape{.inputs = 4, .width = 3};
  std::vector<float> network = plain::draw_network(rng, shape);
  const std::vector<float> before = network;
  TrainingScratch scratch;
  const TrainingReport report = train_network(shape, network, {}, {}, rng, scratch);
  EXPECT_EQ(report.steps, 0U);
  EXPECT_EQ(report.epochs, 0U);
  EXPECT_FALSE(report.stopped_by_loss);
  EXPECT_TRUE(plain::same_bits(network, before));
}

TEST(Training, StartsAfreshWhateverTheScratchHolds) {
  Rng rng(8, Stream::kTest);
  const NetworkShape shape{.inputs = 6, .width = 20, .depth = 3};
  const NetworkShape larger{.inputs = 9, .width = 40, .depth = 4, .biases = true};
  const OwnSamples samples = draw_samples(rng, shape, 5, true);
  const OwnSamples others = draw_samples(rng, larger, 9, false);
  const std::vector<float> begin = plain::draw_network(rng, shape);
  std::vector<float> large = plain::draw_network(rng, larger);
  const TrainingOptions options{.step_limit = 40, .stop_loss = 0};
  const auto train = [&](TrainingScratch& scratch) {
    std::vector<float> network = begin;
    Rng order(1, Stream::kTrainingOrder);
    train_network(shape, network, samples.view(), options, order, scratch);
    return network;
  };
  TrainingScratch fresh;
  TrainingScratch used;
  train_network(larger, large, others.view(), options, rng, used);
  const std::vector<float> expected = train(fresh);
  EXPECT_TRUE(plain::same_bits(train(used), expected));
  EXPECT_TRUE(plain::same_bits(train(used), expected));
  std::ranges::fill(used.moments, kNan);
  EXPECT_TRUE(plain::same_bits(train(used), expected));
}

TEST(Training, GivesTheSameBitsOnBothAvxTargets) {
  if (!plain::machine_has("avx512") || !plain::machine_has("avx2")) {
    GTEST_SKIP() << "this machine has no AVX-512, or no AVX2";
  }
  Rng rng(9, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(6)) {
    for (const auto optimiser : {Optimiser::kSgd, Optimiser::kAdam}) {
      const OwnSamples samples = draw_samples(rng, shape, 5, rng.chance(0.5));
      const std::vector<float> begin = plain::draw_network(rng, shape);
      const auto train_on = [&](const std::string& target) {
        const SimdTargetInScope scope(target);
        std::vector<float> network = begin;
        Rng order(1, Stream::kTrainingOrder);
        TrainingScratch scratch;
        train_network(shape, network, samples.view(),
                      {.optimiser = optimiser, .step_limit = 30, .stop_loss = 0}, order, scratch);
        return network;
      };
      ASSERT_TRUE(plain::same_bits(train_on("avx512"), train_on("avx2"))) << plain::describe(shape);
    }
  }
}

TEST(Training, OptionsThatMakeNoSenseAreRefused) {
  const auto expect_refused = [](const std::string& words, const TrainingOptions& options) {
    expect_error(ErrorKind::kUsage, words, [&] { options.validate(); });
    const NetworkShape shape{.inputs = 1, .width = 1};
    std::vector<float> network = {1.0F, 1.0F};
    Rng rng(1, Stream::kTest);
    TrainingScratch scratch;
    const std::vector<float> x = {1.0F};
    const std::vector<Sample> samples = {{{x, 0}, 2.0F}};
    expect_error(ErrorKind::kUsage, words,
                 [&] { train_network(shape, network, samples, options, rng, scratch); });
    EXPECT_EQ(network, std::vector<float>({1.0F, 1.0F}));
    NetworkPool pool(shape, network);
    pool.add_users(1);
    expect_error(ErrorKind::kUsage, words,
                 [&] { pool.train(UserId{0}, samples, options, rng, scratch); });
    EXPECT_EQ(pool.distinct_count(), 0U);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float rate : {0.0F, -0.1F, kNan, infinity, -infinity}) {
    expect_refused("learning rate", {.learning_rate = rate});
  }
  expect_refused("step limit", {.step_limit = std::uint64_t{1} << 32});
  expect_refused("stop loss", {.stop_loss = -1e-9});
  expect_refused("stop loss", {.stop_loss = std::nan("")});
  EXPECT_NO_THROW(TrainingOptions{}.validate());
}

// ---- in the pool

TEST(TrainingDeathTest, NeedsFeaturesThatFitTheNetwork) {
  const NetworkShape shape{.inputs = 4, .width = 3};
  std::vector<float> network(shape.parameter_count(), 0.5F);
  const std::vector<float> x(5, 1.0F);
  Rng rng(12, Stream::kTest);
  TrainingScratch scratch;
  for (const Optimiser optimiser : {Optimiser::kSgd, Optimiser::kAdam}) {
    for (const Features& bad : {Features{x, 0}, Features{{x.data(), 2}, 3}, Features{{}, 0}}) {
      const Sample sample{bad, 1.0F};
      EXPECT_DEATH(
          train_network(shape, network, {&sample, 1}, {.optimiser = optimiser}, rng, scratch),
          "the features fit the network");
    }
  }
}

TEST(NetworkPoolTrain, TrainsOneUserLikeALoneNetwork) {
  Rng rng(10, Stream::kTest);
  const NetworkShape shape{.inputs = 6, .width = 20, .depth = 3};
  const OwnSamples samples = draw_samples(rng, shape, 5, true);
  NetworkPool pool(shape, plain::draw_network(rng, shape));
  pool.add_users(4);
  pool.set_parameters(UserId{2}, plain::draw_network(rng, shape));
  const TrainingOptions options{.step_limit = 33, .stop_loss = 0};
  for (const UserId each :
       {UserId{1}, UserId{2}}) {  // one that shares the start, one that does not
    std::vector<float> expected(pool.parameters(each).begin(), pool.parameters(each).end());
    const std::vector<float> other(pool.parameters(UserId{3}).begin(),
                                   pool.parameters(UserId{3}).end());
    TrainingScratch scratch;
    Rng order(1, Stream::kTrainingOrder);
    const TrainingReport alone =
        train_network(shape, expected, samples.view(), options, order, scratch);
    order = Rng(1, Stream::kTrainingOrder);
    const TrainingReport report = pool.train(each, samples.view(), options, order, scratch);
    EXPECT_TRUE(plain::same_bits(pool.parameters(each), expected));
    EXPECT_TRUE(plain::same_bits(pool.parameters(UserId{3}), other));
    EXPECT_EQ(report.steps, alone.steps);
    EXPECT_EQ(report.last_epoch_loss, alone.last_epoch_loss);
    EXPECT_EQ(pool.distinct_count(), 2U);
  }
}

TEST(NetworkPoolTrain, OnNothingLeavesTheUserShared) {
  Rng rng(11, Stream::kTest);
  const NetworkShape shape{.inputs = 6, .width = 20};
  const OwnSamples samples = draw_samples(rng, shape, 5, false);
  NetworkPool pool(shape, plain::draw_network(rng, shape));
  pool.add_users(2);
  TrainingScratch scratch;
  EXPECT_EQ(pool.train(UserId{0}, {}, {}, rng, scratch).steps, 0U);
  EXPECT_EQ(pool.train(UserId{0}, samples.view(), {.step_limit = 0}, rng, scratch).steps, 0U);
  EXPECT_EQ(pool.distinct_count(), 0U);
  EXPECT_EQ(pool.train(UserId{0}, samples.view(), {.step_limit = 1}, rng, scratch).steps, 1U);
  EXPECT_EQ(pool.distinct_count(), 1U);
}

}  // namespace
}  // namespace mcnb::training_test
