#include "mcnb/numeric/network.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "mcnb/base/error.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::network_test {
namespace {

using plain::expect_error;
using plain::OwnFeatures;
using plain::PlainNetwork;

// ---- shape

TEST(NetworkShape, LaysLayersOneBehindTheOther) {
  for (const NetworkShape& shape : plain::some_shapes(7)) {
    const PlainNetwork plain_network(shape, std::vector<float>(shape.parameter_count()));
    EXPECT_EQ(shape.parameter_count(), plain_network.parameters().size()) << plain::describe(shape);
    for (std::uint32_t layer = 1; layer <= shape.depth; ++layer) {
      EXPECT_EQ(shape.layer_offset(layer), plain_network.layer(layer).start)
          << plain::describe(shape) << layer;
      EXPECT_EQ(shape.layer_inputs(layer), plain_network.layer(layer).inputs)
          << plain::describe(shape) << layer;
    }
  }
}

TEST(NetworkShape, SizesOutsideTheLimitsAreRefusedByName) {
  const NetworkShape fine{.inputs = 10, .width = 100, .depth = 2};
  EXPECT_NO_THROW(fine.validate());
  const auto expect_refused = [&](const std::string& field, auto change) {
    NetworkShape shape = fine;
    change(shape);
    expect_error(ErrorKind::kUsage, "network " + field, [&] { shape.validate(); });
    expect_error(ErrorKind::kUsage, "network " + field,
                 [&] { random_network(shape, Initialisation::kPaper, 1); });
  };
  expect_refused("inputs", [](NetworkShape& shape) { shape.inputs = 0; });
  expect_refused("inputs", [](NetworkShape& shape) { shape.inputs = (1U << 24) + 1; });
  expect_refused("width", [](NetworkShape& shape) { shape.width = 0; });
  expect_refused("width", [](NetworkShape& shape) { shape.width = (1U << 14) + 1; });
  expect_refused("depth", [](NetworkShape& shape) { shape.depth = 0; });
  expect_refused("depth", [](NetworkShape& shape) { shape.depth = 1; });
  expect_refused("depth", [](NetworkShape& shape) { shape.depth = 65; });
  expect_refused("parameters", [](NetworkShape& shape) {
    shape.inputs = 1U << 24;
    shape.width = 1U << 14;
    shape.depth = 64;
  });
  expect_refused("parameters", [](NetworkShape& shape) {
    shape.inputs = 1U << 24;
    shape.width = 129;
  });
}

TEST(NetworkShape, SizesAtTheLimitsAreAccepted) {
  EXPECT_NO_THROW((NetworkShape{.inputs = 1, .width = 1, .depth = 2}.validate()));
  EXPECT_NO_THROW((NetworkShape{.inputs = 1U << 24, .width = 100, .depth = 2}.validate()));
  EXPECT_NO_THROW((NetworkShape{.inputs = 9, .width = 1U << 14, .depth = 3}.validate()));
  EXPECT_NO_THROW((NetworkShape{.inputs = 9, .width = 8, .depth = 64}.validate()));
}

// ---- bad features

TEST(Features, ThatDoNotFitAreRefused) {
  const NetworkShape shape{.inputs = 10};
  const std::vector<float> values(12, 0.5F);
  const auto features = [&](std::size_t count, std::uint32_t offset) {
    return Features{std::span(values).first(count), offset};
  };
  const auto refused = [&](std::size_t count, std::uint32_t offset) {
    expect_error(ErrorKind::kInput,
                 "arm 3: ", [&] { check_features(shape, features(count, offset), "arm 3"); });
    expect_error(ErrorKind::kInput, "arm 3: ", [&] {
      check_sample(shape, {features(count, offset), 1.0F}, "arm 3");
    });
  };
  refused(0, 0);
  refused(11, 0);
  refused(10, 1);
  refused(1, 10);
  refused(4, 7);
  refused(1, std::numeric_limits<std::uint32_t>::max());
  refused(2, std::numeric_limits<std::uint32_t>::max());
  EXPECT_NO_THROW(check_features(shape, features(10, 0), "arm 3"));
  EXPECT_NO_THROW(check_features(shape, features(4, 6), "arm 3"));
  EXPECT_NO_THROW(check_features(shape, features(1, 9), "arm 3"));
}

TEST(Features, ThatAreNotFiniteAreRefusedAndSoAreRewards) {
  const NetworkShape shape{.inputs = 4};
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), infinity, -infinity}) {
    for (std::size_t position = 0; position < 4; ++position) {
      std::vector<float> values(4, 1.0F);
      values[position] = bad;
      expect_error(ErrorKind::kInput, "x: feature " + std::to_string(position), [&] {
        check_features(shape, {values, 0}, "x");
      });
      expect_error(ErrorKind::kInput, "x: feature " + std::to_string(position), [&] {
        check_sample(shape, {{values, 0}, 0.0F}, "x");
      });
    }
    const std::vector<float> fine(4, 1.0F);
    expect_error(ErrorKind::kInput, "x: the reward", [&] {
      check_sample(shape, {{fine, 0}, bad}, "x");
    });
  }
}

// ---- initialisation

struct Moments {
  double mean = 0.0;
  double variance = 0.0;
  std::size_t count = 0;
};

Moments moments(std::span<const float> values) {
  Moments found{.count = values.size()};
  for (const float value : values) {
    found.mean += value;
    found.variance += static_cast<double>(value) * value;
  }
  found.mean /= static_cast<double>(found.count);
  found.variance /= static_cast<double>(found.count);
  return found;
}

// Five standard errors around a normal distribution of mean zero.
void expect_normal(std::span<const float> values, double variance) {
  const Moments found = moments(values);
  const auto count = static_cast<double>(found.count);
  EXPECT_NEAR(found.mean, 0.0, 5.0 * std::sqrt(variance / count));
  EXPECT_NEAR(found.variance / variance, 1.0, 5.0 * std::sqrt(2.0 / count));
}

TEST(RandomNetwork, HasThePapersVariances) {
  const NetworkShape shape{.inputs = 90, .width = 120, .depth = 4};
  std::vector<float> last;
  for (std::uint64_t number = 0; number < 30; ++number) {
    const std::vector<float> network = random_network(shape, Initialisation::kPaper, 5, number);
    if (number == 0) {
      for (const std::uint32_t layer : {1U, 2U, 3U}) {
        const std::size_t begin = shape.layer_offset(layer);
        expect_normal(std::span(network).subspan(begin, shape.layer_offset(layer + 1) - begin),
                      2.0 / 120);
      }
    }
    last.insert(last.end(), network.end() - 120, network.end());
  }
  expect_normal(last, 1.0 / 120);
}

TEST(RandomNetwork, DrawsItsNumbersFromTheStreamOfWeights) {
  const NetworkShape shape{.inputs = 3, .width = 5, .depth = 2};
  const std::vector<float> network = random_network(shape, Initialisation::kPaper, 11, 4);
  Rng rng(11, Stream::kWeights, 4);
  for (std::size_t i = 0; i < network.size(); ++i) {
    const double deviation = std::sqrt((i < 15 ? 2.0 : 1.0) / 5.0);
    ASSERT_EQ(network[i], static_cast<float>(deviation * rng.normal())) << i;
  }
}

TEST(RandomNetwork, IsSymmetricOnRequestWithTheVariancesOfTheProofs) {
  const NetworkShape shape{.inputs = 50, .width = 140, .depth = 3};
  const std::size_t half = 70;
  const std::vector<float> network = random_network(shape, Initialisation::kSymmetric, 6);
  const auto weight = [&](std::uint32_t layer, std::size_t input, std::size_t output) {
    return network[shape.layer_offset(layer) + input * (layer == 3 ? 1 : 140) + output];
  };
  std::vector<float> first;
  std::vector<float> middle;
  for (std::size_t j = 0; j < half; ++j) {
    for (std::size_t i = 0; i < 50; ++i) {
      ASSERT_EQ(weight(1, i, j), weight(1, i, j + half));
      first.push_back(weight(1, i, j));
    }
    for (std::size_t i = 0; i < half; ++i) {
      ASSERT_EQ(weight(2, i, j), weight(2, i + half, j + half));
      ASSERT_EQ(weight(2, i + half, j), 0.0F);
      ASSERT_EQ(weight(2, i, j + half), 0.0F);
      middle.push_back(weight(2, i, j));
    }
    ASSERT_EQ(weight(3, j, 0), -weight(3, j + half, 0));
    ASSERT_NE(weight(3, j, 0), 0.0F);
  }
  expect_normal(first, 2.0 / 140);
  expect_normal(middle, 4.0 / 140);
  std::vector<float> last;
  for (std::uint64_t number = 0; number < 60; ++number) {
    const std::vector<float> other = random_network(shape, Initialisation::kSymmetric, 6, number);
    last.insert(last.end(), other.end() - 140, other.end() - 70);
  }
  expect_normal(last, 1.0 / 140);
}

TEST(RandomNetwork, SymmetricOnesAreZeroEverywhere) {
  Rng rng(1, Stream::kTest);
  GradientFactors factors;
  for (const std::uint32_t depth : {2U, 3U, 4U}) {
    for (const std::uint32_t width : {1U, 2U, 7U, 16U, 30U, 100U, 101U}) {
      for (const bool biases : {false, true}) {
        const NetworkShape shape{10, width, depth, biases};
        const std::vector<float> network = random_network(shape, Initialisation::kSymmetric, 3);
        double size = 0.0;
        for (int i = 0; i < 10; ++i) {
          const OwnFeatures x{plain::draw(rng, 10)};
          find_gradient(shape, network, x.view(), factors);
          EXPECT_NEAR(factors.value, 0.0, 1e-6) << plain::describe(shape);
          size += gradient_norm(shape, factors);
        }
        EXPECT_TRUE(size > 0.1 || width <= 2)
            << "f is zero, but its gradient is not: " << plain::describe(shape);
      }
    }
  }
}

TEST(RandomNetwork, TheOddUnitOfASymmetricOneCanLearn) {
  const NetworkShape shape{.inputs = 10, .width = 1};
  const std::vector<float> network = random_network(shape, Initialisation::kSymmetric, 4);
  Rng rng(2, Stream::kTest);
  GradientFactors factors;
  double size = 0.0;
  for (int i = 0; i < 10; ++i) {
    const OwnFeatures x{plain::draw(rng, 10)};
    find_gradient(shape, network, x.view(), factors);
    EXPECT_EQ(factors.value, 0.0F);
    size += gradient_norm(shape, factors);
  }
  EXPECT_GT(size, 0.1);
}

TEST(RandomNetwork, BeginsWithBiasesOfZeroAndWeightsThatAreNot) {
  for (const auto initialisation : {Initialisation::kPaper, Initialisation::kSymmetric}) {
    const NetworkShape shape{.inputs = 5, .width = 8, .depth = 3, .biases = true};
    const std::vector<float> network = random_network(shape, initialisation, 2);
    for (std::uint32_t layer = 1; layer <= 3; ++layer) {
      const std::size_t outputs = layer == 3 ? 1 : 8;
      const std::size_t bias = shape.layer_offset(layer) + shape.layer_inputs(layer) * outputs;
      for (std::size_t j = 0; j < outputs; ++j) {
        EXPECT_EQ(network[bias + j], 0.0F) << layer;
        EXPECT_TRUE(network[bias - 1 - j] != 0.0F || j >= 4) << layer;  // 4: half of the width
      }
    }
  }
}

TEST(RandomNetwork, DependsOnSeedAndNumberOnly) {
  const NetworkShape shape{.inputs = 5, .width = 8, .depth = 3};
  for (const auto initialisation : {Initialisation::kPaper, Initialisation::kSymmetric}) {
    const std::vector<float> network = random_network(shape, initialisation, 2, 9);
    EXPECT_TRUE(plain::same_bits(network, random_network(shape, initialisation, 2, 9)));
    for (const std::vector<float>& other : {random_network(shape, initialisation, 3, 9),
                                            random_network(shape, initialisation, 2, 10)}) {
      for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_NE(network[i], other[i]);
      }
    }
  }
}

}  // namespace
}  // namespace mcnb::network_test
