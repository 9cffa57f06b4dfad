#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/theory/best_fit.h"
#include "mcnb/theory/kernel.h"
#include "tests/numeric/plain_network.h"
#include "tests/theory/context_cases.h"

namespace mcnb::kernel_test {
namespace {

using theory_cases::draw_contexts;
using theory_cases::empty_contexts;
using theory_cases::shape_of;

constexpr double kPi = std::numbers::pi;

Eigen::MatrixXd kernel_of_angle(double degrees, std::uint32_t depth) {
  Eigen::MatrixXd products(2, 2);
  const double cosine = std::cos(degrees * kPi / 180.0);
  products << 1.0, cosine, cosine, 1.0;
  return tangent_kernel(products, depth);
}

// By hand: Sigma^1 = (sin a + (pi - a) cos a) / pi, H^1 = cos a (pi - a) / pi + Sigma^1.
TEST(TangentKernel, HasKnownValues) {
  EXPECT_NEAR(kernel_of_angle(90, 2)(0, 0), 1.5, 1e-12);
  EXPECT_NEAR(kernel_of_angle(90, 2)(0, 1), 1.0 / kPi, 1e-12);
  EXPECT_NEAR(kernel_of_angle(180, 2)(0, 1), 0.0, 1e-12);
  EXPECT_NEAR(kernel_of_angle(60, 2)(0, 1), std::sin(kPi / 3) / kPi + 1.0 / 3.0 + 1.0 / 6.0, 1e-12);
  EXPECT_NEAR(kernel_of_angle(90, 3)(0, 0), 2.0, 1e-12);
  const double angle = std::acos(1.0 / kPi);
  const double both = (kPi - angle) / kPi;
  const double sigma = std::sin(angle) / kPi + both / kPi;
  EXPECT_NEAR(kernel_of_angle(90, 3)(0, 1), 0.5 * (both / kPi + sigma + sigma), 1e-12);
}

TEST(TangentKernel, GrowsWithTheSquareOfTheLength) {
  Eigen::MatrixXd products(2, 2);
  products << 4.0, 0.6, 0.6, 1.0;
  const Eigen::MatrixXd kernel = tangent_kernel(products, 3);
  Eigen::MatrixXd of_length_one(2, 2);
  of_length_one << 1.0, 0.3, 0.3, 1.0;
  const Eigen::MatrixXd plain = tangent_kernel(of_length_one, 3);
  EXPECT_NEAR(kernel(0, 0), 4.0 * plain(0, 0), 1e-12);
  EXPECT_NEAR(kernel(0, 1), 2.0 * plain(0, 1), 1e-12);
}

// The expectations of the recursion by drawing, for two layers and three.
TEST(TangentKernel, IsWhatRandomNetworksGiveOnAverage) {
  const Contexts contexts = draw_contexts(6, 5, 1);
  ThreadPool threads(2);
  for (const std::uint32_t depth : {2U, 3U}) {
    const NetworkShape shape = shape_of(5, 256, depth);
    Eigen::MatrixXd mean = Eigen::MatrixXd::Zero(6, 6);
    constexpr int kNetworks = 200;
    for (int i = 0; i < kNetworks; ++i) {
      const std::vector<float> network =
          random_network(shape, Initialisation::kPaper, 7, static_cast<std::uint64_t>(i));
      mean += gradient_products(contexts, inner_products(contexts), shape, network, threads) /
              kNetworks;
    }
    const Eigen::MatrixXd kernel = tangent_kernel(inner_products(contexts), depth);
    EXPECT_LT((mean - kernel).norm(), 0.03 * kernel.norm()) << depth;
  }
}

TEST(TangentKernel, GradientsComeNearerAsTheWidthGrows) {
  const Contexts contexts = draw_contexts(20, 6, 2);
  ThreadPool threads(2);
  for (std::uint32_t depth = 2; depth <= (kThreadSanitized ? 2U : 4U); ++depth) {
    const Eigen::MatrixXd kernel = tangent_kernel(inner_products(contexts), depth);
    std::vector<double> distances;  // means over a few networks
    constexpr int kNetworks = 6;
    for (const std::uint32_t width : {32U, 181U, 1024U}) {
      const NetworkShape shape = shape_of(6, width, depth);
      distances.push_back(0.0);
      for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
        const std::vector<float> network = random_network(shape, Initialisation::kPaper, seed);
        distances.back() +=
            (gradient_products(contexts, inner_products(contexts), shape, network, threads) -
             kernel)
                .norm() /
            kNetworks;
      }
    }
    EXPECT_LT(distances[1], 0.7 * distances[0]) << depth;
    EXPECT_LT(distances[2], 0.7 * distances[1]) << depth;
  }
}

// The whole gradient, number by number, by differences of f.
TEST(GradientProducts, AreThoseOfTheGradients) {
  const Contexts contexts = draw_contexts(3, 4, 4);
  const NetworkShape shape = shape_of(4, 6, 3);
  std::vector<float> network = random_network(shape, Initialisation::kPaper, 5);
  Eigen::MatrixXd gradients(3, static_cast<Eigen::Index>(network.size()));
  GradientFactors factors;
  for (std::size_t i = 0; i < network.size(); ++i) {
    const float before = network[i];
    for (const float step : {1.0F, -1.0F}) {
      network[i] = before + step / 512.0F;
      for (std::size_t j = 0; j < contexts.size(); ++j) {
        find_gradient(shape, network, contexts.features(j), factors);
        double& slope = gradients(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(i));
        slope = (step > 0 ? 0.0 : slope) + static_cast<double>(step * factors.value) * 256.0;
      }
    }
    network[i] = before;
  }
  ThreadPool threads(1);
  const Eigen::MatrixXd products =
      gradient_products(contexts, inner_products(contexts), shape, network, threads);
  EXPECT_LT((products - gradients * gradients.transpose()).norm(), 0.02 * products.norm());
}

TEST(Contexts, OfParallelDirectionsMakeTheKernelSingular) {
  Contexts contexts = empty_contexts(3);
  contexts.add({std::vector<float>{0.6F, 0.8F, 0.0F}}, 0.25);
  contexts.add({std::vector<float>{1.2F, 1.6F, 0.0F}}, 0.75);
  contexts.add({std::vector<float>{0.0F, 0.6F, 0.8F}}, 1.0);
  const KernelFacts all =
      study_kernel(tangent_kernel(inner_products(contexts), 2), contexts.rewards);
  EXPECT_TRUE(all.singular);
  EXPECT_FALSE(all.complexity.has_value());

  const Contexts kept = distinct_directions(contexts);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept.rewards, (std::vector<double>{0.5, 1.0}));
  const KernelFacts facts = study_kernel(tangent_kernel(inner_products(kept), 2), kept.rewards);
  EXPECT_FALSE(facts.singular);
  EXPECT_GT(facts.smallest_eigenvalue, 0.1);
  // Opposite directions are not parallel: ReLU tells them apart.
  contexts.add({std::vector<float>{-0.6F, -0.8F, 0.0F}}, 0.0);
  EXPECT_EQ(distinct_directions(contexts).size(), 3U);
}

TEST(Contexts, InDifferentBlocksHaveNothingInCommon) {
  Contexts contexts = empty_contexts(6);
  const std::vector<float> x{0.6F, 0.8F};
  contexts.add({x, 0}, 1.0);
  contexts.add({x, 2}, 0.0);
  contexts.add({x, 1}, 0.0);
  const Eigen::MatrixXd products = inner_products(contexts);
  EXPECT_EQ(products(0, 1), 0.0);
  EXPECT_NEAR(products(0, 0), 1.0, 1e-6);
  EXPECT_NEAR(products(0, 2), 0.48, 1e-6);  // blocks that overlap
  EXPECT_EQ(distinct_directions(contexts).size(), 3U);
}

// Two blocks of forty inputs with six and five contexts, two of them the same, and a block of two
// inputs with four.
TEST(Contexts, KeepTheirProductsInTheBasisOfTheirSpan) {
  Contexts all = empty_contexts(90);
  Rng rng(21, Stream::kTest);
  const auto add = [&](std::size_t length, std::uint32_t offset) {
    const std::vector<float> values = plain::draw(rng, length);
    all.add({values, offset}, rng.uniform());
    return values;
  };
  for (int i = 0; i < 4; ++i) {
    add(40, 0);
    add(2, 40);
    add(40, 50);
  }
  add(40, 0);
  add(40, 0);
  const std::vector<float> twice = add(40, 50);
  all.add({twice, 50}, 0.75);
  const Contexts fewer = in_span(all, all);
  EXPECT_EQ(fewer.inputs, 6U + 2U + 6U);
  EXPECT_EQ(fewer.rewards, all.rewards);
  EXPECT_LT((inner_products(fewer) - inner_products(all)).cwiseAbs().maxCoeff(), 1e-5);

  const Contexts distinct = distinct_directions(all);
  ASSERT_EQ(distinct.size(), all.size() - 1);
  const Contexts fewer_distinct = in_span(distinct, all);
  EXPECT_EQ(fewer_distinct.inputs, fewer.inputs);
  EXPECT_EQ(fewer_distinct.rewards, distinct.rewards);
  for (std::size_t i = 0; i < distinct.size(); ++i) {  // the same in both
    EXPECT_NEAR(inner_product(fewer_distinct.features(i), fewer.features(i)),
                inner_product(all.features(i), all.features(i)), 1e-5);
    EXPECT_EQ(fewer_distinct.features(i).offset, fewer.features(i).offset);
  }
}

TEST(Contexts, WithBlocksThatOverlapStayAsTheyAre) {
  Contexts all = empty_contexts(9);
  const std::vector<float> values(6, 0.5F);
  all.add({values, 0}, 0.0);
  all.add({values, 3}, 1.0);
  EXPECT_EQ(in_span(all, all).values, all.values);
  EXPECT_EQ(in_span(all, all).inputs, 9U);
}

// S* of twelve contexts with 60 inputs, around a network W R and around its image W there.
TEST(Contexts, HaveTheSameLeastLossInTheBasisOfTheirSpan) {
  constexpr std::uint32_t kInputs = 60;
  constexpr std::uint32_t kCount = 12;
  constexpr std::uint32_t kWidth = 24;
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Contexts contexts = draw_contexts(kCount, kInputs, 22);
  const Contexts fewer = in_span(contexts, contexts);
  ASSERT_EQ(fewer.inputs, kCount);
  const auto columns = [](const Contexts& some) {
    return Eigen::Map<const Eigen::MatrixXf>(some.values.data(), some.inputs, kCount);
  };
  const NetworkShape small = shape_of(kCount, kWidth, 2);
  const NetworkShape large = shape_of(kInputs, kWidth, 2);
  const std::vector<float> image = random_network(small, Initialisation::kPaper, 6);
  const RowMajor basis = columns(contexts) * columns(fewer).inverse();
  const RowMajor first = basis * Eigen::Map<const RowMajor>(image.data(), kCount, kWidth);
  std::vector<float> network(first.data(), first.data() + first.size());
  network.insert(network.end(), image.end() - kWidth, image.end());
  ThreadPool threads(2);
  EXPECT_NEAR(total_loss(fewer, small, image, threads),
              total_loss(contexts, large, network, threads), 1e-5);
  for (const double radius : {0.1, 0.5}) {
    const double expected =
        find_best_fit(contexts, large, network, network, radius, 200, threads).loss;
    EXPECT_GT(expected, 0.01);
    EXPECT_NEAR(find_best_fit(fewer, small, image, image, radius, 200, threads).loss, expected,
                1e-3 * expected);
  }
}

TEST(KernelFacts, FollowFromTheMatrix) {
  Eigen::MatrixXd kernel(2, 2);
  kernel << 2.0, 1.0, 1.0, 3.0;
  const std::vector<double> rewards{1.0, 0.5};
  const KernelFacts facts = study_kernel(kernel, rewards);
  EXPECT_NEAR(facts.smallest_eigenvalue, 2.5 - std::sqrt(1.25), 1e-12);
  EXPECT_NEAR(facts.effective_dimension, std::log(11.0) / std::log(3.0), 1e-12);
  ASSERT_TRUE(facts.complexity.has_value());
  EXPECT_NEAR(*facts.complexity, std::sqrt((3.0 - 1.0 + 0.5) / 5.0), 1e-12);
}

}  // namespace
}  // namespace mcnb::kernel_test
