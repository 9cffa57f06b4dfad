#include "mcnb/numeric/damped_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mcnb/numeric/kernels.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::damped_step_test {
namespace {

float value_at(const NetworkShape& shape, std::span<const float> network, const Features& x) {
  GradientFactors gradient;
  find_gradient(shape, network, x, gradient);
  return gradient.value;
}

std::vector<float> draw_of_length(Rng& rng, std::size_t count, double length) {
  std::vector<float> x = plain::draw(rng, count);
  double squares = 0.0;
  for (const float value : x) {
    squares += static_cast<double>(value) * value;
  }
  for (float& value : x) {
    value = static_cast<float>(value * length / std::sqrt(squares));
  }
  return x;
}

std::vector<NetworkShape> shapes() {
  return {{.inputs = 6, .width = 20},
          {.inputs = 6, .width = 7, .depth = 3},
          {.inputs = 6, .width = 20, .biases = true},
          {.inputs = 6, .width = 9, .depth = 4, .biases = true}};
}

TEST(DampedStep, IsAPlainStepForOrdinarySamples) {
  for (const NetworkShape& shape : shapes()) {
    Rng rng(1, Stream::kTest);
    DampedStepScratch scratch;
    std::vector<float> network = random_network(shape, Initialisation::kPaper, 3);
    std::vector<float> plain = network;
    for (int i = 0; i < 200; ++i) {
      const std::vector<float> x = draw_of_length(rng, 6, 1.0);
      const auto reward = static_cast<float>(rng.uniform());
      float* const to = plain.data();
      kernels::sgd_step(shape, {&to, 1}, x, 0, reward, 0.05F);
      ASSERT_TRUE(take_damped_step(shape, network, {{x, 0}, reward}, 0.05F, scratch));
      ASSERT_TRUE(plain::same_bits(network, plain)) << i;
    }
  }
}

// A plain step of a large reward is kept, too, if it does not increase the loss.
TEST(DampedStep, IsAPlainStepWhereThatIsStable) {
  const NetworkShape shape{.inputs = 6, .width = 20};
  Rng rng(2, Stream::kTest);
  DampedStepScratch scratch;
  std::vector<float> network = random_network(shape, Initialisation::kPaper, 3);
  std::vector<float> plain = network;
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> x = draw_of_length(rng, 6, 1.0);
    float* const to = plain.data();
    kernels::sgd_step(shape, {&to, 1}, x, 0, 5.0F, 0.01F);
    ASSERT_TRUE(take_damped_step(shape, network, {{x, 0}, 5.0F}, 0.01F, scratch));
    ASSERT_TRUE(plain::same_bits(network, plain)) << i;
  }
}

TEST(DampedStep, NeverIncreasesAnExtraordinaryLossAndStaysFinite) {
  for (const NetworkShape& shape : shapes()) {
    for (std::uint64_t world = 0; world < 20; ++world) {
      Rng rng(world, Stream::kTest);
      DampedStepScratch scratch;
      std::vector<float> network = random_network(shape, Initialisation::kPaper, world);
      for (int i = 0; i < 300; ++i) {
        const std::vector<float> x =
            draw_of_length(rng, 6, std::pow(10.0, rng.uniform() * 12.0 - 6.0));
        const auto reward = static_cast<float>(rng.normal() * std::pow(10.0, rng.uniform() * 6.0));
        const double before = value_at(shape, network, {x, 0});
        ASSERT_TRUE(take_damped_step(shape, network, {{x, 0}, reward}, 0.4F, scratch));
        const double after = value_at(shape, network, {x, 0});
        ASSERT_TRUE(all_finite(network));
        if (std::abs(reward) > kOrdinaryReward) {
          ASSERT_LE(std::abs(after - reward), std::abs(before - reward)) << i;
        }
      }
    }
  }
}

TEST(DampedStep, RepeatedReachesAnyReward) {
  const NetworkShape shape{.inputs = 6, .width = 50};
  for (const Initialisation initialisation : {Initialisation::kPaper, Initialisation::kSymmetric}) {
    for (const float reward : {-1e6F, -30.0F, 0.5F, 1e3F, 1e6F}) {
      for (const double length : {1.0, 1e3}) {
        Rng rng(4, Stream::kTest);
        DampedStepScratch scratch;
        std::vector<float> network = random_network(shape, initialisation, 1);
        const std::vector<float> x = draw_of_length(rng, 6, length);
        for (int i = 0; i < 300; ++i) {
          take_damped_step(shape, network, {{x, 0}, reward}, 0.4F, scratch);
        }
        EXPECT_NEAR(value_at(shape, network, {x, 0}), reward, 0.02 * std::abs(reward))
            << "length " << length;
      }
    }
  }
}

TEST(DampedStep, IsRefusedWhereTheNetworkHasNoFiniteValue) {
  const NetworkShape shape{.inputs = 2, .width = 4};
  std::vector<float> network(shape.parameter_count(), 2.0F);
  const std::vector<float> before = network;
  const std::vector<float> x = {3e38F, 3e38F};
  DampedStepScratch scratch;
  EXPECT_FALSE(take_damped_step(shape, network, {{x, 0}, 1.0F}, 0.1F, scratch));
  EXPECT_TRUE(plain::same_bits(network, before));
}

}  // namespace
}  // namespace mcnb::damped_step_test
