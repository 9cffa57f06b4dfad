// The kernels that step along many samples at once, against the plain network in double precision.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "mcnb/numeric/kernels.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::adaptation_kernels_test {
namespace {

using plain::OwnFeatures;
using plain::PlainNetwork;
using plain::SimdTargetInScope;

constexpr std::uint32_t kInputs = 12;
constexpr float kGuard = -77.0F;

// The relative error of single precision, in units of the sum of all terms' absolute values.
constexpr double kRounding = 16 * 0x1p-24;

struct Block {
  std::uint32_t row;
  std::uint32_t columns;
};

// The rows of W_1 that the draws use.
enum class Layout {
  kOneBlock,
  kMixed,          // another block for every draw
  kRunsThenMixed,  // so many of one block that they are evaluated together, then mixed ones
};

Block block_of(Layout layout, std::size_t draw) {
  constexpr Block kBlocks[] = {{0, 5}, {3, 4}, {8, 4}, {0, kInputs}, {11, 1}};
  const bool same = layout == Layout::kOneBlock || (layout == Layout::kRunsThenMixed && draw < 16);
  return same ? kBlocks[1] : kBlocks[draw % std::size(kBlocks)];
}

// The point at which an adaptation is evaluated; it overlaps some of the blocks.
constexpr Block kPoint{2, 5};

struct Case {
  NetworkShape shape;
  std::size_t draws;
  Layout layout;
};

std::string describe(const Case& which) {
  return plain::describe(which.shape) + ", " + std::to_string(which.draws) + " draws, layout " +
         std::to_string(static_cast<int>(which.layout));
}

std::vector<Case> cases_of(const std::vector<Layout>& layouts) {
  std::vector<Case> cases;
  for (const std::uint32_t width : {1U, 3U, 16U, 17U, 100U, 130U}) {
    for (const std::size_t draws : {1U, 7U, 8U, 9U, 32U, 33U, 70U}) {
      for (const bool biases : {false, true}) {
        for (const Layout layout : layouts) {
          cases.push_back({{kInputs, width, 2, biases}, draws, layout});
        }
      }
    }
  }
  return cases;
}

// Draws, and the features that they borrow.
struct Draws {
  std::vector<OwnFeatures> features;
  std::vector<kernels::AdaptationDraw> draws;
};

double inner_product(const NetworkShape& shape, const Features& a, const Features& b) {
  const std::vector<double> x = plain::dense(shape, a);
  const std::vector<double> y = plain::dense(shape, b);
  double sum = shape.biases ? 1.0 : 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

Draws draw_draws(Rng& rng, const Case& which, const PlainNetwork& network, const Features& point) {
  Draws result;
  for (std::size_t j = 0; j < which.draws; ++j) {
    const Block block = block_of(which.layout, j);
    result.features.push_back(plain::draw_clear_features(rng, network, block.columns, block.row));
  }
  for (const OwnFeatures& x : result.features) {
    result.draws.push_back(
        {.x = x.values.data(),
         .count = static_cast<std::uint32_t>(x.values.size()),
         .row = x.offset,
         .reward = static_cast<float>(rng.uniform()),
         .factor = static_cast<float>(-0.5 * rng.uniform() / static_cast<double>(which.draws)),
         .inner = static_cast<float>(inner_product(which.shape, x.view(), point))});
  }
  return result;
}

// Takes one step along all draws, with every gradient taken at the original network.
struct PlainStep {
  PlainStep(const PlainNetwork& before, const Draws& draws)
      : after(before), sizes(before.parameters().size(), 0.0) {
    for (std::size_t j = 0; j < draws.draws.size(); ++j) {
      const Features x = draws.features[j].view();
      const kernels::AdaptationDraw& draw = draws.draws[j];
      const std::vector<double> gradient = before.gradient(x);
      const double step = draw.factor * (before.value(x) - draw.reward);
      const double size = std::abs(draw.factor) *
                          (before.magnitude(x) + std::abs(static_cast<double>(draw.reward)));
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        after.parameters()[i] += step * gradient[i];
        sizes[i] += size * std::abs(gradient[i]);
      }
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] += std::abs(before.parameters()[i]);
    }
  }

  PlainNetwork after;
  std::vector<double> sizes;  // of the terms of each parameter, for the rounding errors
};

// W_1 x before the ReLU, bias included.
std::vector<double> first_sums(const NetworkShape& shape, std::span<const double> parameters,
                               const Features& x, bool sizes = false) {
  std::vector<double> inputs = plain::dense(shape, x);
  if (shape.biases) {
    inputs.push_back(1.0);
  }
  std::vector<double> sums(shape.width, 0.0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t unit = 0; unit < shape.width; ++unit) {
      const double term = parameters[i * shape.width + unit] * inputs[i];
      sums[unit] += sizes ? std::abs(term) : term;
    }
  }
  return sums;
}

// Pads with zeros, as the kernels require.
std::vector<float> padded(const NetworkShape& shape, std::span<const double> values) {
  std::vector<float> result(shape.padded_width(), 0.0F);
  std::ranges::transform(values, result.begin(),
                         [](double value) { return static_cast<float>(value); });
  return result;
}

// The weights of W_2, without the bias.
std::span<const double> last_layer(const PlainNetwork& network) {
  return std::span(network.parameters()).subspan(network.layer(2).start, network.shape().width);
}

struct Adapted {
  std::vector<float> sums;
  std::vector<float> last;
  float bias;
};

// Memory with old contents, as an earlier call may leave it.
std::vector<float> used_room() { return std::vector<float>(4000, std::nanf("")); }

Adapted adapt(const NetworkShape& shape, std::span<const float> parameters, const PlainNetwork& as,
              const Draws& draws, const Features& point) {
  Adapted result{padded(shape, first_sums(shape, as.parameters(), point)),
                 padded(shape, last_layer(as)), 0.0F};
  std::vector<float> room = used_room();
  result.bias = kernels::adapt(shape, parameters.data(), draws.draws, result.sums.data(),
                               result.last.data(), room);
  return result;
}

void expect_padding(const NetworkShape& shape, std::span<const float> values) {
  for (std::size_t i = shape.width; i < shape.padded_width(); ++i) {
    ASSERT_EQ(values[i], 0.0F) << "the padding is no longer zero";
  }
}

TEST(AdaptationKernels, EveryTargetSeesTheStepAsThePlainNetworkDoes) {
  Rng rng(1, Stream::kTest);
  for (const Case& which : cases_of({Layout::kOneBlock, Layout::kMixed, Layout::kRunsThenMixed})) {
    const NetworkShape& shape = which.shape;
    const std::vector<float> parameters = plain::draw_network(rng, shape);
    const PlainNetwork before(shape, parameters);
    const OwnFeatures point{plain::draw(rng, kPoint.columns), kPoint.row};
    const Draws draws = draw_draws(rng, which, before, point.view());
    const PlainStep step(before, draws);
    const std::vector<double> sums = first_sums(shape, step.after.parameters(), point.view());
    const std::vector<double> sizes = first_sums(shape, step.sizes, point.view(), true);
    double bias = 0.0;
    double bias_size = 0.0;
    std::vector<double> inner_sizes(shape.width, 0.0);  // W_1 moves by products with x_j . x
    for (std::size_t j = 0; j < draws.draws.size(); ++j) {
      const Features x = draws.features[j].view();
      const double move = draws.draws[j].factor * (before.value(x) - draws.draws[j].reward);
      bias += move;
      bias_size += std::abs(draws.draws[j].factor) * (before.magnitude(x) + 1.0);
      for (std::size_t unit = 0; unit < shape.width; ++unit) {
        inner_sizes[unit] += std::abs(move * last_layer(before)[unit] * draws.draws[j].inner);
      }
    }
    for (const std::string& target : kernels::simd_targets()) {
      SCOPED_TRACE(testing::Message() << target << ", " << describe(which));
      const SimdTargetInScope scope(target);
      const Adapted found = adapt(shape, parameters, before, draws, point.view());
      for (std::size_t unit = 0; unit < shape.width; ++unit) {
        ASSERT_NEAR(found.sums[unit], sums[unit], kRounding * (sizes[unit] + inner_sizes[unit]))
            << "W_1 x, unit " << unit;
        ASSERT_NEAR(found.last[unit], last_layer(step.after)[unit],
                    kRounding * step.sizes[before.layer(2).start + unit])
            << "W_2, unit " << unit;
      }
      ASSERT_NEAR(found.bias, bias, kRounding * bias_size);
      ASSERT_NO_FATAL_FAILURE(expect_padding(shape, found.sums));
      ASSERT_NO_FATAL_FAILURE(expect_padding(shape, found.last));
    }
  }
}

TEST(AdaptationKernels, WithoutDrawsNothingMoves) {
  Rng rng(2, Stream::kTest);
  const NetworkShape shape{.inputs = kInputs, .width = 17};
  const std::vector<float> parameters = plain::draw_network(rng, shape);
  const PlainNetwork network(shape, parameters);
  const OwnFeatures point{plain::draw(rng, kPoint.columns), kPoint.row};
  for (const std::string& target : kernels::simd_targets()) {
    const SimdTargetInScope scope(target);
    const Adapted found = adapt(shape, parameters, network, {}, point.view());
    EXPECT_EQ(found.bias, 0.0F);
    EXPECT_TRUE(plain::same_bits(
        found.sums, padded(shape, first_sums(shape, network.parameters(), point.view()))));
    EXPECT_TRUE(plain::same_bits(found.last, padded(shape, last_layer(network))));
  }
}

// A network between guards. The rows of W_1 that no draw uses are NaN.
std::vector<float> guarded(const NetworkShape& shape, std::span<const float> parameters,
                           const Block& met) {
  std::vector<float> values(shape.parameter_count() + 2 * 16, kGuard);
  std::ranges::copy(parameters, values.begin() + 16);
  for (std::uint32_t row = 0; row < shape.inputs; ++row) {
    if (row < met.row || row >= met.row + met.columns) {
      std::fill_n(values.begin() + 16 + static_cast<std::ptrdiff_t>(row) * shape.width, shape.width,
                  std::nanf(""));
    }
  }
  return values;
}

TEST(AdaptationKernels, EveryTargetMakesTheStepAsThePlainNetworkDoes) {
  Rng rng(3, Stream::kTest);
  for (const Case& which : cases_of({Layout::kOneBlock})) {
    const NetworkShape& shape = which.shape;
    const Block met = block_of(which.layout, 0);
    const std::vector<float> parameters = plain::draw_network(rng, shape);
    const PlainNetwork before(shape, parameters);
    Draws draws = draw_draws(rng, which, before, {});
    for (kernels::AdaptationDraw& draw : draws.draws) {
      draw.inner = std::nanf("");  // not used
    }
    const PlainStep step(before, draws);
    const std::vector<float> start = guarded(shape, parameters, met);
    for (const std::string& target : kernels::simd_targets()) {
      SCOPED_TRACE(testing::Message() << target << ", " << describe(which));
      const SimdTargetInScope scope(target);
      std::vector<float> network = start;
      std::vector<float> room = used_room();
      kernels::batch_step(shape, network.data() + 16, draws.draws, room);
      for (std::size_t i = 0; i < network.size(); ++i) {
        if (std::isnan(start[i]) || start[i] == kGuard) {
          ASSERT_TRUE(plain::same_bits(network[i], start[i])) << "wrote beside the block, " << i;
        } else {
          ASSERT_NEAR(network[i], step.after.parameters()[i - 16], kRounding * step.sizes[i - 16])
              << "parameter " << i - 16;
        }
      }
    }
  }
}

TEST(AdaptationKernels, EveryTargetSumsTheFirstLayerLikeThePlainNetwork) {
  Rng rng(4, Stream::kTest);
  for (const std::uint32_t width : {1U, 3U, 16U, 17U, 100U, 130U}) {
    for (const bool biases : {false, true}) {
      for (const Block& block : {Block{0, kInputs}, Block{0, 1}, Block{5, 4}, Block{11, 1}}) {
        const NetworkShape shape{kInputs, width, 2, biases};
        const std::vector<float> parameters = plain::draw_network(rng, shape);
        const std::vector<double> exact(parameters.begin(), parameters.end());
        const OwnFeatures x{plain::draw(rng, block.columns), block.row};
        const std::vector<double> expected = first_sums(shape, exact, x.view());
        const std::vector<double> sizes = first_sums(shape, exact, x.view(), true);
        const std::vector<float> network = guarded(shape, parameters, block);
        for (const std::string& target : kernels::simd_targets()) {
          SCOPED_TRACE(testing::Message() << target << ", " << plain::describe(shape));
          const SimdTargetInScope scope(target);
          std::vector<float> sums(shape.padded_width() + 1, kGuard);
          kernels::first_layer(shape, network.data() + 16, x.values, block.row, sums.data());
          for (std::size_t unit = 0; unit < width; ++unit) {
            ASSERT_NEAR(sums[unit], expected[unit], kRounding * sizes[unit]) << "unit " << unit;
          }
          ASSERT_NO_FATAL_FAILURE(expect_padding(shape, sums));
          ASSERT_EQ(sums.back(), kGuard) << "wrote behind the sums";
        }
      }
    }
  }
}

TEST(AdaptationKernels, AvxTargetsAgreeBitForBit) {
  if (!plain::machine_has("avx512") || !plain::machine_has("avx2")) {
    GTEST_SKIP() << "this machine has no AVX-512, or no AVX2";
  }
  Rng rng(5, Stream::kTest);
  for (const Case& which : cases_of({Layout::kOneBlock, Layout::kMixed, Layout::kRunsThenMixed})) {
    const NetworkShape& shape = which.shape;
    const std::vector<float> parameters = plain::draw_network(rng, shape);
    const PlainNetwork network(shape, parameters);
    const OwnFeatures point{plain::draw(rng, kPoint.columns), kPoint.row};
    const Draws draws = draw_draws(rng, which, network, point.view());
    std::map<std::string, std::vector<float>> results;
    for (const std::string target : {"avx512", "avx2"}) {
      const SimdTargetInScope scope(target);
      std::vector<float>& result = results[target];
      const Adapted adapted = adapt(shape, parameters, network, draws, point.view());
      result = adapted.sums;
      result.insert(result.end(), adapted.last.begin(), adapted.last.end());
      result.push_back(adapted.bias);
      std::vector<float> sums(shape.padded_width());
      kernels::first_layer(shape, parameters.data(), point.values, point.offset, sums.data());
      result.insert(result.end(), sums.begin(), sums.end());
      if (which.layout == Layout::kOneBlock) {
        std::vector<float> stepped = parameters;
        std::vector<float> room = used_room();
        kernels::batch_step(shape, stepped.data(), draws.draws, room);
        result.insert(result.end(), stepped.begin(), stepped.end());
      }
    }
    ASSERT_TRUE(plain::same_bits(results["avx512"], results["avx2"])) << describe(which);
  }
}

}  // namespace
}  // namespace mcnb::adaptation_kernels_test
