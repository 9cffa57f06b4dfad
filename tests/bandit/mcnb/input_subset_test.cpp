#include "mcnb/bandit/mcnb/input_subset.h"

#include <gtest/gtest.h>

#include <set>

#include "mcnb/numeric/kernels.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::input_subset_test {
namespace {

constexpr std::uint32_t kInputs = 40;

// A network that has only the inputs of the subset gives the same values as the whole network.
TEST(InputSubset, KeepsTheValuesOfTheNetwork) {
  for (const bool biases : {false, true}) {
    const NetworkShape whole{.inputs = kInputs, .width = 5, .depth = 3, .biases = biases};
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Rng rng(seed, Stream::kTest);
      const std::vector<float> network = plain::draw_network(rng, whole);
      std::vector<std::vector<float>> values;
      std::vector<Features> features;
      std::set<std::uint32_t> touched;
      for (std::uint64_t i = 0; i < 1 + seed % 5; ++i) {
        values.push_back(plain::draw(rng, 1 + rng.below(6)));
      }
      for (const std::vector<float>& x : values) {
        const auto offset = static_cast<std::uint32_t>(rng.below(kInputs - x.size() + 1));
        features.push_back({x, offset});
        for (std::uint32_t k = 0; k < x.size(); ++k) {
          touched.insert(offset + k);
        }
      }
      InputSubset subset;
      subset.use_only(features);
      EXPECT_FALSE(subset.is_all());
      const NetworkShape shape = subset.shape(whole);
      EXPECT_EQ(shape.inputs, touched.size());
      std::vector<float> small;
      subset.extract(whole, network, small);
      ASSERT_EQ(small.size(), shape.parameter_count());
      for (const Features& x : features) {
        const Features renumbered = subset.renumbered(x);
        EXPECT_NEAR(plain::PlainNetwork(shape, small).value(renumbered),
                    plain::PlainNetwork(whole, network).value(x), 1e-12);
      }
      std::uint32_t number = 0;
      for (const std::uint32_t input : touched) {
        EXPECT_EQ(subset.number_of(input), number++);
      }
    }
  }
}

TEST(InputSubset, WritesBackWhatItExtracted) {
  const NetworkShape whole{.inputs = kInputs, .width = 3};
  Rng rng(1, Stream::kTest);
  const std::vector<float> network = plain::draw_network(rng, whole);
  const std::vector<float> x(4, 1.0F);
  InputSubset subset;
  subset.use_only(std::vector<Features>{{x, 30}, {x, 2}, {x, 32}});
  std::vector<float> small;
  subset.extract(whole, network, small);
  for (float& weight : small) {
    weight += 100.0F;
  }
  std::vector<float> changed = network;
  subset.write_back(whole, small, changed);
  for (std::size_t i = 0; i < network.size(); ++i) {
    const std::size_t input = i / whole.width;
    const bool kept = (input >= 2 && input < 6) || (input >= 30 && input < 36) || input >= kInputs;
    EXPECT_EQ(changed[i], kept ? network[i] + 100.0F : network[i]) << i;
  }
}

TEST(InputSubset, OfAllInputsChangesNothing) {
  const NetworkShape whole{.inputs = kInputs, .width = 3};
  Rng rng(2, Stream::kTest);
  const std::vector<float> network = plain::draw_network(rng, whole);
  const std::vector<float> x(1, 1.0F);
  InputSubset subset;
  subset.use_only(std::vector<Features>{{x, 7}});
  subset.use_all();
  EXPECT_TRUE(subset.is_all());
  EXPECT_EQ(subset.number_of(17), 17U);
  EXPECT_EQ(subset.shape(whole), whole);
  std::vector<float> small;
  subset.extract(whole, network, small);
  EXPECT_EQ(small, network);
  std::vector<float> copy(network.size());
  subset.write_back(whole, small, copy);
  EXPECT_EQ(copy, network);
}

}  // namespace
}  // namespace mcnb::input_subset_test
