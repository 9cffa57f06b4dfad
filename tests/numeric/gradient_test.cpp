#include <gtest/gtest.h>

#include <string>

#include "mcnb/numeric/network.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::gradient_test {
namespace {

using plain::OwnFeatures;
using plain::PlainNetwork;
using plain::SimdTargetInScope;

GradientFactors factors_of(const NetworkShape& shape, std::span<const float> network,
                           const Features& x) {
  GradientFactors factors;
  find_gradient(shape, network, x, factors);
  return factors;
}

// Changes every parameter a little, so that the two gradients agree only in their first digits.
std::vector<float> nearly(std::span<const float> network, double size, Rng& rng) {
  std::vector<float> other(network.begin(), network.end());
  for (float& value : other) {
    value = static_cast<float>(value * (1.0 + size * rng.normal()));
  }
  return other;
}

TEST(PlainNetwork, GradientIsTheSlopeOfItsValue) {
  Rng rng(1, Stream::kTest);
  for (const std::uint32_t depth : {2U, 3U, 4U}) {
    for (const std::uint32_t width : {1U, 4U, 9U}) {
      for (const bool biases : {false, true}) {
        const NetworkShape shape{7, width, depth, biases};
        PlainNetwork network(shape, plain::draw_network(rng, shape));
        const OwnFeatures x = plain::draw_clear_features(rng, network, 4, 2, 1e-3);
        const std::vector<double> gradient = network.gradient(x.view());
        const double size = plain::norm(gradient);
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          constexpr double kStep = 1e-6;
          const double before = network.parameters()[i];
          network.parameters()[i] = before + kStep;
          const double above = network.value(x.view());
          network.parameters()[i] = before - kStep;
          const double below = network.value(x.view());
          network.parameters()[i] = before;
          ASSERT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8 * (1.0 + size))
              << plain::describe(shape) << ", parameter " << i;
        }
      }
    }
  }
}

TEST(GradientFactors, ExpandToTheGradientOfThePlainNetwork) {
  Rng rng(2, Stream::kTest);
  for (const std::uint32_t offset : {0U, 4U}) {
    for (const NetworkShape& shape : plain::some_shapes(13)) {
      const std::vector<float> parameters = plain::draw_network(rng, shape);
      const PlainNetwork network(shape, parameters);
      const std::size_t count = offset == 0 ? 13 : 6;
      const OwnFeatures x = plain::draw_clear_features(rng, network, count, offset);
      const std::vector<double> expected = network.gradient(x.view());
      const double longest = std::abs(*std::ranges::max_element(
          expected, [](double a, double b) { return std::abs(a) < std::abs(b); }));
      for (const std::string& target : kernels::simd_targets()) {
        SCOPED_TRACE(testing::Message()
                     << target << ", offset " << offset << ", " << plain::describe(shape));
        const SimdTargetInScope scope(target);
        const GradientFactors factors = factors_of(shape, parameters, x.view());
        EXPECT_NEAR(factors.value, network.value(x.view()), 1e-6 * network.magnitude(x.view()));
        const std::vector<double> found = plain::expand(shape, factors);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-5 * longest) << "parameter " << i;
        }
        EXPECT_NEAR(gradient_norm(shape, factors), plain::norm(expected),
                    1e-5 * plain::norm(expected));
      }
    }
  }
}

TEST(GradientFactors, CanBeFilledAgainForAnotherShape) {
  Rng rng(3, Stream::kTest);
  GradientFactors reused;
  for (const std::uint32_t width : {130U, 3U, 17U}) {
    const NetworkShape shape{6, width, 3, true};
    const std::vector<float> parameters = plain::draw_network(rng, shape);
    const OwnFeatures x{plain::draw(rng, 2), width % 4};
    find_gradient(shape, parameters, x.view(), reused);
    const GradientFactors fresh = factors_of(shape, parameters, x.view());
    EXPECT_EQ(plain::expand(shape, reused), plain::expand(shape, fresh)) << width;
    EXPECT_TRUE(plain::same_bits(reused.value, fresh.value));
  }
}

TEST(GradientFactorsDeathTest, NeedAllParameters) {
  const NetworkShape shape{.inputs = 2, .width = 3};
  const std::vector<float> parameters(shape.parameter_count() - 1);
  const std::vector<float> x(2, 1.0F);
  GradientFactors factors;
  EXPECT_DEATH(find_gradient(shape, parameters, {x, 0}, factors), "match the network's shape");
}

TEST(GradientFactorsDeathTest, NeedFeaturesThatFitTheNetwork) {
  const NetworkShape shape{.inputs = 4, .width = 3};
  const std::vector<float> parameters(shape.parameter_count(), 0.5F);
  const std::vector<float> x(5, 1.0F);
  GradientFactors factors;
  for (const Features& bad :
       {Features{x, 0}, Features{{x.data(), 2}, 3}, Features{{x.data(), 1}, 4},
        Features{{x.data(), 4}, 0xffffffffU}, Features{{}, 0}}) {
    EXPECT_DEATH(find_gradient(shape, parameters, bad, factors), "the features fit the network");
  }
  find_gradient(shape, parameters, {{x.data(), 2}, 2}, factors);
  EXPECT_TRUE(std::isfinite(factors.value));
}

TEST(GradientNorm, IsThatOfTheExplicitVector) {
  Rng rng(4, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(9)) {
    const std::vector<float> parameters = plain::draw_network(rng, shape);
    const OwnFeatures x{plain::draw(rng, 5), 3};
    const GradientFactors factors = factors_of(shape, parameters, x.view());
    const double expected = plain::norm(plain::expand(shape, factors));
    EXPECT_NEAR(gradient_norm(shape, factors), expected, 1e-12 * expected)
        << plain::describe(shape);
  }
}

TEST(GradientDistance, IsThatOfTheExplicitVectors) {
  Rng rng(5, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(12)) {
    const std::vector<float> a = plain::draw_network(rng, shape);
    const std::vector<float> b = plain::draw_network(rng, shape);
    const std::vector<OwnFeatures> features = {
        {plain::draw(rng, 12), 0},  // dense
        {plain::draw(rng, 4), 0},   // blocks: apart, side by side, overlapping, one in another
        {plain::draw(rng, 4), 4},  {plain::draw(rng, 4), 8}, {plain::draw(rng, 4), 2},
        {plain::draw(rng, 8), 3},  {plain::draw(rng, 1), 11}};
    for (const OwnFeatures& x : features) {
      for (const OwnFeatures& y : features) {
        const GradientFactors at_x = factors_of(shape, a, x.view());
        const GradientFactors at_y = factors_of(shape, b, y.view());
        const double expected =
            plain::distance(plain::expand(shape, at_x), plain::expand(shape, at_y));
        ASSERT_NEAR(gradient_distance(shape, at_x, at_y), expected, 1e-10 * expected)
            << plain::describe(shape) << ", " << x.offset << " + " << x.values.size() << " and "
            << y.offset << " + " << y.values.size();
      }
    }
  }
}

TEST(GradientDistance, IsThatOfThePlainNetworks) {
  Rng rng(6, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(12)) {
    const std::vector<float> a = plain::draw_network(rng, shape);
    const std::vector<float> b = nearly(a, 0.1, rng);
    const PlainNetwork plain_a(shape, a);
    const PlainNetwork plain_b(shape, b);
    OwnFeatures x = plain::draw_clear_features(rng, plain_a, 12);
    while (plain_b.margin(x.view()) < 1e-5) {
      x = plain::draw_clear_features(rng, plain_a, 12);
    }
    const double expected = plain::distance(plain_a.gradient(x.view()), plain_b.gradient(x.view()));
    EXPECT_NEAR(
        gradient_distance(shape, factors_of(shape, a, x.view()), factors_of(shape, b, x.view())),
        expected, 1e-4 * expected)
        << plain::describe(shape);
  }
}

TEST(GradientDistance, IsExactlyZeroBetweenEqualGradients) {
  Rng rng(7, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(8)) {
    const std::vector<float> network = plain::draw_network(rng, shape);
    const OwnFeatures x{plain::draw(rng, 3), 5};
    const GradientFactors a = factors_of(shape, network, x.view());
    EXPECT_EQ(gradient_distance(shape, a, factors_of(shape, network, x.view())), 0.0)
        << plain::describe(shape);
    // Write the features of the block as a whole vector.
    OwnFeatures whole{std::vector<float>(8, 0.0F)};
    std::ranges::copy(x.values, whole.values.begin() + 5);
    EXPECT_EQ(gradient_distance(shape, a, factors_of(shape, network, whole.view())), 0.0)
        << plain::describe(shape);
  }
}

TEST(GradientDistance, KeepsItsDigitsBetweenNearlyEqualNetworks) {
  Rng rng(8, Stream::kTest);
  for (const NetworkShape& shape : plain::some_shapes(8)) {
    const std::vector<float> a = plain::draw_network(rng, shape);
    const OwnFeatures x = plain::draw_clear_features(rng, PlainNetwork(shape, a), 8, 0, 1e-4);
    OwnFeatures longer = x;  // the same as a block, the last feature being zero
    longer.values.back() = 0.0F;
    const OwnFeatures shorter{{longer.values.begin(), longer.values.end() - 1}};
    for (const double size : {1e-3, 1e-5, 2e-7}) {
      const std::vector<float> b = nearly(a, size, rng);
      const auto expect_digits = [&](const OwnFeatures& at_a, const OwnFeatures& at_b) {
        const GradientFactors of_a = factors_of(shape, a, at_a.view());
        const GradientFactors of_b = factors_of(shape, b, at_b.view());
        const double expected =
            plain::distance(plain::expand(shape, of_a), plain::expand(shape, of_b));
        EXPECT_NEAR(gradient_distance(shape, of_a, of_b), expected, 1e-6 * expected)
            << plain::describe(shape) << ", parameters changed by " << size;
      };
      expect_digits(x, x);
      expect_digits(longer, shorter);
      expect_digits(shorter, longer);
    }
  }
}

TEST(GradientDistance, IsTheSameInBothDirections) {
  Rng rng(9, Stream::kTest);
  const NetworkShape shape{.inputs = 12, .width = 30, .depth = 3, .biases = true};
  const OwnFeatures x{plain::draw(rng, 6), 1};
  const OwnFeatures y{plain::draw(rng, 5), 4};
  const GradientFactors a = factors_of(shape, plain::draw_network(rng, shape), x.view());
  const GradientFactors b = factors_of(shape, plain::draw_network(rng, shape), y.view());
  const double there = gradient_distance(shape, a, b);
  EXPECT_NEAR(gradient_distance(shape, b, a), there, 1e-12 * there);
}

}  // namespace
}  // namespace mcnb::gradient_test
