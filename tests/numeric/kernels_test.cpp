#include "mcnb/numeric/kernels.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

#include "mcnb/base/error.h"
#include "tests/numeric/plain_network.h"
#include "tests/sanitizers.h"

namespace mcnb::kernels_test {
namespace {

using plain::OwnFeatures;
using plain::PlainNetwork;
using plain::SimdTargetInScope;

const float kNan = std::nanf("");

// A shape, and the rows of W_1 that the arms meet.
struct Case {
  NetworkShape shape;
  std::uint32_t row = 0;
  std::uint32_t columns = 0;

  bool dense() const { return columns == shape.inputs; }
};

std::string describe(const Case& which) {
  return plain::describe(which.shape) + ", rows " + std::to_string(which.row) + " + " +
         std::to_string(which.columns);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::uint32_t depth : {2U, 3U, 4U}) {
    for (const std::uint32_t width : {1U, 3U, 15U, 16U, 17U, 32U, 100U, 130U}) {
      for (const std::uint32_t columns : {1U, 3U, 10U, 20U}) {
        for (const bool biases : {false, true}) {
          if (kThreadSanitized && (depth == 3) != biases) {
            continue;
          }
          cases.push_back({{columns, width, depth, biases}, 0, columns});
          cases.push_back({{columns + 7, width, depth, biases}, 5, columns});
        }
      }
    }
  }
  return cases;
}

// A network for the kernels, with NaN in the rows of W_1 that no arm uses, and a copy for the
// oracle with zeros in those rows.
struct Network {
  std::vector<float> guarded;
  PlainNetwork plain;
};

Network draw_guarded(Rng& rng, const Case& which) {
  std::vector<float> parameters = plain::draw_network(rng, which.shape);
  std::vector<float> guarded = parameters;
  for (std::size_t row = 0; row < which.shape.inputs; ++row) {
    if (row < which.row || row >= which.row + which.columns) {
      std::fill_n(guarded.begin() + static_cast<std::ptrdiff_t>(row * which.shape.width),
                  which.shape.width, kNan);
      std::fill_n(parameters.begin() + static_cast<std::ptrdiff_t>(row * which.shape.width),
                  which.shape.width, 0.0F);
    }
  }
  return {guarded, PlainNetwork(which.shape, parameters)};
}

std::vector<OwnFeatures> draw_arms(Rng& rng, const Case& which, std::size_t count) {
  std::vector<OwnFeatures> arms;
  for (std::size_t i = 0; i < count; ++i) {
    arms.push_back({plain::draw(rng, which.columns), which.row});
  }
  return arms;
}

// The arms, all of one block, cut into tiles.
std::vector<kernels::ArmTile> tiles_of(std::span<const OwnFeatures> arms) {
  std::vector<kernels::ArmTile> tiles;
  for (std::size_t begin = 0; begin < arms.size(); begin += kernels::max_tile_arms()) {
    const std::size_t count = std::min(arms.size() - begin, kernels::max_tile_arms());
    const std::size_t columns = arms[begin].values.size();
    kernels::ArmTile tile{.values = std::vector<float>(count * columns),
                          .arms = static_cast<std::uint32_t>(count),
                          .columns = static_cast<std::uint32_t>(columns),
                          .row = arms[begin].offset,
                          .first_arm = static_cast<std::uint32_t>(begin)};
    for (std::size_t arm = 0; arm < count; ++arm) {
      for (std::size_t column = 0; column < columns; ++column) {
        tile.values[column * count + arm] = arms[begin + arm].values[column];
      }
    }
    tiles.push_back(tile);
  }
  return tiles;
}

// Predictions by arm, then network. There are guards between the columns of the networks, which
// must not change.
std::vector<float> predict(const NetworkShape& shape, std::span<const Network> networks,
                           std::span<const OwnFeatures> arms) {
  constexpr float kGuard = -77.0F;
  const std::size_t stride = 2 * networks.size() + 1;
  std::vector<float> out(stride * arms.size(), kGuard);
  std::vector<kernels::PredictTarget> targets;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    targets.push_back({networks[i].guarded.data(), 2 * i + 1});
  }
  kernels::predict(shape, tiles_of(arms), targets, out.data(), stride);
  std::vector<float> predictions;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % stride % 2 == 1) {
      predictions.push_back(out[i]);
    } else {
      EXPECT_EQ(out[i], kGuard) << "written beside the results";
    }
  }
  return predictions;
}

// The error that single precision may have, relative to PlainNetwork::magnitude.
constexpr double kRounding = 6 * 0x1p-24;

void expect_predictions_match(const Case& which, std::size_t arm_count, Rng& rng) {
  const std::vector<Network> networks = {draw_guarded(rng, which), draw_guarded(rng, which)};
  const std::vector<OwnFeatures> arms = draw_arms(rng, which, arm_count);
  std::vector<double> expected;
  std::vector<double> magnitudes;
  for (const OwnFeatures& arm : arms) {
    for (const Network& network : networks) {
      expected.push_back(network.plain.value(arm.view()));
      magnitudes.push_back(network.plain.magnitude(arm.view()));
    }
  }
  for (const std::string& target : kernels::simd_targets()) {
    SCOPED_TRACE(testing::Message() << target << ", " << arm_count << " arms, " << describe(which));
    const SimdTargetInScope scope(target);
    const std::vector<float> found = predict(which.shape, networks, arms);
    std::vector<float> activations(which.shape.hidden_count());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t arm = i / networks.size();
      ASSERT_NEAR(found[i], expected[i], kRounding * magnitudes[i]) << "arm " << arm;
      const float forward =
          kernels::forward(which.shape, networks[i % networks.size()].guarded.data(),
                           arms[arm].values, which.row, activations.data());
      ASSERT_TRUE(plain::same_bits(forward, found[i])) << forward << " is not " << found[i];
    }
  }
}

TEST(Kernels, EveryTargetPredictsLikeThePlainNetworkForEveryShape) {
  Rng rng(1, Stream::kTest);
  std::size_t number = 0;
  for (const Case& which : all_cases()) {
    expect_predictions_match(which, 1 + number++ * 7 % 30, rng);
    if (HasFailure()) {
      return;
    }
  }
}

TEST(Kernels, EveryTargetPredictsLikeThePlainNetworkForEveryNumberOfArms) {
  Rng rng(2, Stream::kTest);
  for (std::size_t arms = 1; arms <= 30; ++arms) {
    for (const std::uint32_t width : {7U, 40U, 100U}) {
      expect_predictions_match({{5, width, 2, false}, 0, 5}, arms, rng);
      expect_predictions_match({{9, width, 3, true}, 2, 3}, arms, rng);
    }
    if (HasFailure()) {
      return;
    }
  }
}

// Networks larger than what the kernels prefetch or keep in the cache.
TEST(Kernels, EveryTargetPredictsLikeThePlainNetworkForLargeNetworks) {
  Rng rng(10, Stream::kTest);
  expect_predictions_match({{200, 130, 2, false}, 0, 200}, 14, rng);
  expect_predictions_match({{9, 300, 3, true}, 2, 3}, 30, rng);
}

// Two arms are evaluated together, with all of their inputs.
TEST(Kernels, ZerosOfOneLongInputAreSkippedWithTheSameBits) {
  Rng rng(12, Stream::kTest);
  for (const std::uint32_t width : {1U, 17U, 100U, 130U}) {
    for (const double share : {0.0, 0.2, 1.0}) {
      const NetworkShape shape{.inputs = 333, .width = width, .depth = 2 + width % 2};
      OwnFeatures x{plain::draw(rng, shape.inputs), 0};
      for (float& value : x.values) {
        value = rng.chance(share) ? value : 0.0F;
      }
      const std::vector<float> weights = plain::draw_network(rng, shape);
      const Network network{weights, PlainNetwork(shape, weights)};
      Network guarded = network;
      for (std::size_t i = 0; i < shape.inputs; ++i) {
        if (x.values[i] == 0.0F) {
          std::fill_n(guarded.guarded.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                      kNan);
        }
      }
      for (const std::string& target : kernels::simd_targets()) {
        SCOPED_TRACE(testing::Message() << target << ", share " << share << ", width " << width);
        const SimdTargetInScope scope(target);
        const float alone = predict(shape, {&guarded, 1}, {&x, 1})[0];
        const std::vector<OwnFeatures> two{x, x};
        EXPECT_TRUE(plain::same_bits(alone, predict(shape, {&network, 1}, two)[1]));
        EXPECT_NEAR(alone, network.plain.value(x.view()),
                    kRounding * network.plain.magnitude(x.view()));
        std::vector<float> activations(shape.hidden_count());
        EXPECT_TRUE(plain::same_bits(alone, kernels::forward(shape, guarded.guarded.data(),
                                                             x.values, 0, activations.data())));
      }
    }
  }
}

TEST(Kernels, TilesOfDifferentBlocksMix) {
  Rng rng(3, Stream::kTest);
  const NetworkShape shape{.inputs = 12, .width = 33, .depth = 3, .biases = true};
  const std::vector<float> parameters = plain::draw_network(rng, shape);
  const PlainNetwork plain_network(shape, parameters);
  const std::vector<OwnFeatures> arms = {{plain::draw(rng, 12), 0},
                                         {plain::draw(rng, 4), 8},
                                         {plain::draw(rng, 4), 0},
                                         {plain::draw(rng, 1), 11}};
  for (const std::string& target : kernels::simd_targets()) {
    const SimdTargetInScope scope(target);
    std::vector<kernels::ArmTile> tiles;
    for (std::size_t i = 0; i < arms.size(); ++i) {
      tiles.push_back(tiles_of({&arms[i], 1})[0]);
      tiles.back().first_arm = static_cast<std::uint32_t>(arms.size() - 1 - i);
    }
    const kernels::PredictTarget one{parameters.data(), 0};
    std::vector<float> out(arms.size());
    kernels::predict(shape, tiles, {&one, 1}, out.data(), 1);
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const double magnitude = plain_network.magnitude(arms[i].view());
      EXPECT_NEAR(out[arms.size() - 1 - i], plain_network.value(arms[i].view()),
                  kRounding * magnitude)
          << target << ", arm " << i;
    }
  }
}

// Compares the parameters after a step with those of the oracle. `step` is the oracle's step.
void expect_step(const Case& which, std::span<const float> before, std::span<const float> after,
                 const PlainNetwork& expected, std::span<const double> step) {
  for (std::uint32_t number = 1; number <= which.shape.depth; ++number) {
    const std::size_t begin = expected.layer(number).start;
    const std::size_t end =
        number == which.shape.depth ? after.size() : expected.layer(number + 1).start;
    double longest = 0.0;
    for (std::size_t i = begin; i < end; ++i) {
      longest = std::max(longest, std::abs(step[i]));
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (std::isnan(before[i])) {
        ASSERT_TRUE(plain::same_bits(before[i], after[i])) << "a row that no feature meets";
      } else {
        ASSERT_NEAR(after[i], expected.parameters()[i],
                    0x1p-23 * std::abs(expected.parameters()[i]) + 1e-4 * longest)
            << "layer " << number << ", parameter " << i - begin;
      }
    }
  }
}

TEST(Kernels, EveryTargetStepsLikeThePlainNetworkForEveryShape) {
  Rng rng(4, Stream::kTest);
  for (const Case& which : all_cases()) {
    const std::vector<Network> before = {draw_guarded(rng, which), draw_guarded(rng, which),
                                         draw_guarded(rng, which)};
    OwnFeatures x{{}, which.row};
    double margin = 0.0;
    while (margin < 1e-5) {
      x.values = plain::draw(rng, which.columns);
      margin = 1.0;
      for (const Network& network : before) {
        margin = std::min(margin, network.plain.margin(x.view()));
      }
    }
    std::vector<Network> expected = before;
    std::vector<std::vector<double>> steps;
    for (Network& network : expected) {
      steps.push_back(network.plain.sgd_step(x.view(), 3.0, 0.25));
    }
    for (const std::string& target : kernels::simd_targets()) {
      SCOPED_TRACE(testing::Message() << target << ", " << describe(which));
      const SimdTargetInScope scope(target);
      std::vector<Network> networks = before;
      std::vector<float*> parameters;
      for (Network& network : networks) {
        parameters.push_back(network.guarded.data());
      }
      kernels::sgd_step(which.shape, parameters, x.values, which.row, 3.0F, 0.25F);
      for (std::size_t i = 0; i < networks.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(expect_step(which, before[i].guarded, networks[i].guarded,
                                            expected[i].plain, steps[i]));
      }
    }
  }
}

TEST(Kernels, AvxTargetsPredictAndStepBitForBitAlike) {
  if (!plain::machine_has("avx512") || !plain::machine_has("avx2")) {
    GTEST_SKIP() << "this machine has no AVX-512, or no AVX2";
  }
  Rng rng(5, Stream::kTest);
  std::size_t number = 0;
  for (const Case& which : all_cases()) {
    const std::vector<Network> networks = {draw_guarded(rng, which), draw_guarded(rng, which)};
    const std::vector<OwnFeatures> arms = draw_arms(rng, which, 1 + number++ * 7 % 30);
    std::map<std::string, std::vector<float>> predictions;
    std::map<std::string, std::vector<float>> stepped;
    for (const std::string target : {"avx512", "avx2"}) {
      const SimdTargetInScope scope(target);
      predictions[target] = predict(which.shape, networks, arms);
      std::vector<float> parameters = networks[0].guarded;
      for (const OwnFeatures& arm : arms) {
        float* const network = parameters.data();
        kernels::sgd_step(which.shape, {&network, 1}, arm.values, which.row, 0.5F, 0.01F);
      }
      stepped[target] = parameters;
    }
    ASSERT_TRUE(plain::same_bits(predictions["avx512"], predictions["avx2"])) << describe(which);
    ASSERT_TRUE(plain::same_bits(stepped["avx512"], stepped["avx2"])) << describe(which);
  }
}

TEST(Kernels, AdamUpdatesARowLikeTheFormula) {
  Rng rng(6, Stream::kTest);
  for (const std::string& target : kernels::simd_targets()) {
    const SimdTargetInScope scope(target);
    for (std::size_t count = 1; count <= 40; ++count) {
      const std::vector<float> signals = plain::draw(rng, count);
      std::vector<float> weights = plain::draw(rng, count + 1);
      std::vector<float> first(count + 1, kNan);
      std::vector<float> second(count + 1, kNan);
      const std::vector<float> begin = weights;
      for (std::size_t i = 0; i < 3; ++i) {
        kernels::adam_update({.weights = weights.data(),
                              .first_moments = first.data(),
                              .second_moments = second.data(),
                              .signals = signals.data(),
                              .count = count,
                              .scale = 0.5F + static_cast<float>(i),
                              .step_size = 0.1F,
                              .second_correction = 1.5F,
                              .first_touch = i == 0});
      }
      for (std::size_t j = 0; j < count; ++j) {
        double m = 0.0;
        double v = 0.0;
        double weight = begin[j];
        for (const double scale : {0.5, 1.5, 2.5}) {
          m = 0.9 * m + 0.1 * scale * signals[j];
          v = 0.999 * v + 0.001 * scale * signals[j] * scale * signals[j];
          weight -= 0.1 * m / (1.5 * std::sqrt(v) + 1e-8);
        }
        ASSERT_NEAR(weights[j], weight, 2e-6) << target << ", weight " << j << " of " << count;
        ASSERT_NEAR(first[j], m, 1e-6 * std::abs(m));
        ASSERT_NEAR(second[j], v, 2e-5 * v);
      }
      ASSERT_EQ(weights[count], begin[count]) << "touched a weight behind the row";
      ASSERT_TRUE(std::isnan(first[count]) && std::isnan(second[count]));
    }
  }
}

TEST(Kernels, DotMatchesThePlainSumForEveryLength) {
  Rng rng(7, Stream::kTest);
  for (std::size_t count = 0; count <= 200; ++count) {
    const std::vector<float> a = plain::draw(rng, count);
    const std::vector<float> b = plain::draw(rng, count);
    double sum = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += static_cast<double>(a[i]) * b[i];
      size += std::abs(static_cast<double>(a[i]) * b[i]);
    }
    for (const std::string& target : kernels::simd_targets()) {
      const SimdTargetInScope scope(target);
      ASSERT_NEAR(kernels::dot(a.data(), b.data(), count), sum, 1e-6 * size) << target << count;
    }
  }
}

// Memory between two pages that fault on any access.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t floats)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        inner_((floats * sizeof(float) + page_ - 1) / page_ * page_),
        base_(static_cast<std::byte*>(
            ::mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(base_ + page_, inner_, PROT_READ | PROT_WRITE);
  }
  ~GuardedPages() { ::munmap(base_, inner_ + 2 * page_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  float* first() { return reinterpret_cast<float*>(base_ + page_); }
  float* last(std::size_t floats) {
    return reinterpret_cast<float*>(base_ + page_ + inner_) - floats;
  }

 private:
  std::size_t page_;
  std::size_t inner_;
  std::byte* base_;
};

TEST(Kernels, FirstWordsAreThoseOfTheGenerators) {
  const RngFamily family(Rng(3, Stream::kTest, 5, 7));
  for (const std::string& target : kernels::simd_targets()) {
    const SimdTargetInScope scope(target);
    for (const std::size_t count : {0U, 1U, 2U, 3U, 4U, 7U, 8U, 9U, 16U, 17U, 100U}) {
      std::vector<std::uint32_t> members;
      for (std::size_t i = 0; i < count; ++i) {
        members.push_back(i % 3 == 0 ? 0xffffffffU - static_cast<std::uint32_t>(i)
                                     : static_cast<std::uint32_t>(i * i));
      }
      std::vector<std::uint32_t> words(count + 1, 42);
      kernels::first_words(family, members, words.data());
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(words[i], family.member(members[i]).bits32()) << target << " " << count;
      }
      EXPECT_EQ(words[count], 42U) << target << " " << count;
    }
  }
}

// A kernel that reaches beyond a network faults here.
TEST(Kernels, NoTargetTouchesMemoryOutsideTheNetwork) {
  Rng rng(8, Stream::kTest);
  for (const Case& which : all_cases()) {
    if (!which.dense() || which.columns > 3 || which.shape.width > 40) {
      continue;
    }
    const std::vector<float> parameters = plain::draw_network(rng, which.shape);
    const std::vector<OwnFeatures> arms = draw_arms(rng, which, 5);
    GuardedPages pages(parameters.size());
    for (const std::string& target : kernels::simd_targets()) {
      const SimdTargetInScope scope(target);
      for (float* const network : {pages.first(), pages.last(parameters.size())}) {
        std::ranges::copy(parameters, network);
        const kernels::PredictTarget one{network, 0};
        std::vector<float> out(arms.size());
        kernels::predict(which.shape, tiles_of(arms), {&one, 1}, out.data(), 1);
        kernels::sgd_step(which.shape, {&network, 1}, arms[0].values, 0, 0.0F, 0.1F);
        kernels::sgd_step(which.shape, {&network, 1}, arms[1].values, 0, 0.0F, 0.1F);
        ASSERT_TRUE(std::ranges::all_of(out, [](float value) { return std::isfinite(value); }));
      }
    }
  }
}

TEST(Kernels, TargetsAreListedBestFirstAndTheBestIsInUse) {
  const std::vector<std::string> targets = kernels::simd_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.back(), "plain");
  EXPECT_EQ(kernels::simd_target(), targets.front());
  const std::vector<std::string> order = {"avx512", "avx2", "sse4", "plain"};
  auto found = order.begin();
  for (const std::string& target : targets) {
    found = std::find(found, order.end(), target);
    ASSERT_NE(found, order.end()) << target << " is unknown or out of order";
  }
}

TEST(Kernels, AnotherTargetIsUsedUntilTheNextChoice) {
  const std::string before = kernels::simd_target();
  for (const std::string& target : kernels::simd_targets()) {
    const SimdTargetInScope scope(target);
    EXPECT_EQ(kernels::simd_target(), target);
  }
  EXPECT_EQ(kernels::simd_target(), before);
}

TEST(Kernels, UnknownTargetsAreRefusedAndChangeNothing) {
  const std::string before = kernels::simd_target();
  for (const std::string name : {"", "avx", "AVX2", "neon"}) {
    for (const auto refuse : {kernels::use_simd_target, kernels::limit_simd_targets}) {
      plain::expect_error(ErrorKind::kUsage, "expected one of " + before, [&] { refuse(name); });
      plain::expect_error(ErrorKind::kUsage, "got \"" + name + "\"", [&] { refuse(name); });
    }
  }
  EXPECT_EQ(kernels::simd_target(), before);
}

}  // namespace
}  // namespace mcnb::kernels_test
