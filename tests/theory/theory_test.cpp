#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/theory/best_fit.h"
#include "mcnb/theory/kernel.h"
#include "mcnb/theory/study.h"
#include "tests/cli/program.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::theory_test {
namespace {

constexpr double kPi = std::numbers::pi;

Contexts empty_contexts(std::uint32_t inputs) {
  return {.inputs = inputs, .values = {}, .places = {}, .rewards = {}};
}

// Unit vectors of any direction, rewards in [0, 1].
Contexts draw_contexts(std::size_t count, std::uint32_t inputs, std::uint64_t seed) {
  Contexts contexts = empty_contexts(inputs);
  Rng rng(seed, Stream::kTest);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> x(inputs);
    double squares = 0.0;
    for (float& value : x) {
      value = static_cast<float>(rng.normal());
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    for (float& value : x) {
      value /= static_cast<float>(std::sqrt(squares));
    }
    contexts.add({x}, rng.uniform());
  }
  return contexts;
}

NetworkShape shape_of(std::uint32_t inputs, std::uint32_t width, std::uint32_t depth) {
  return {.inputs = inputs, .width = width, .depth = depth};
}

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
      mean += gradient_products(contexts, shape, network, threads) / kNetworks;
    }
    const Eigen::MatrixXd kernel = tangent_kernel(inner_products(contexts), depth);
    EXPECT_LT((mean - kernel).norm(), 0.03 * kernel.norm()) << depth;
  }
}

TEST(TangentKernel, GradientsComeNearerAsTheWidthGrows) {
  const Contexts contexts = draw_contexts(20, 6, 2);
  ThreadPool threads(2);
  for (const std::uint32_t depth : {2U, 3U, 4U}) {
    const Eigen::MatrixXd kernel = tangent_kernel(inner_products(contexts), depth);
    std::vector<double> distances;  // means over a few networks
    constexpr int kNetworks = 6;
    for (const std::uint32_t width : {32U, 181U, 1024U}) {
      const NetworkShape shape = shape_of(6, width, depth);
      distances.push_back(0.0);
      for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
        const std::vector<float> network = random_network(shape, Initialisation::kPaper, seed);
        distances.back() +=
            (gradient_products(contexts, shape, network, threads) - kernel).norm() / kNetworks;
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
  const Eigen::MatrixXd products = gradient_products(contexts, shape, network, threads);
  EXPECT_LT((products - gradients * gradients.transpose()).norm(), 0.02 * products.norm());
}

TEST(Contexts, OfParallelDirectionsMakeTheKernelSingular) {
  Contexts contexts = empty_contexts(3);
  contexts.add({std::vector<float>{0.6F, 0.8F, 0.0F}}, 0.25);
  contexts.add({std::vector<float>{1.2F, 1.6F, 0.0F}}, 0.75);
  contexts.add({std::vector<float>{0.0F, 0.6F, 0.8F}}, 1.0);
  const KernelFacts all =
      study_kernel(tangent_kernel(inner_products(contexts), 2), contexts.rewards, 3);
  EXPECT_TRUE(all.singular);
  EXPECT_FALSE(all.complexity.has_value());

  const Contexts kept = distinct_directions(contexts);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept.rewards, (std::vector<double>{0.5, 1.0}));
  const KernelFacts facts = study_kernel(tangent_kernel(inner_products(kept), 2), kept.rewards, 3);
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

TEST(KernelFacts, FollowFromTheMatrix) {
  Eigen::MatrixXd kernel(2, 2);
  kernel << 2.0, 1.0, 1.0, 3.0;
  const std::vector<double> rewards{1.0, 0.5};
  const KernelFacts facts = study_kernel(kernel, rewards, 8);
  EXPECT_NEAR(facts.smallest_eigenvalue, 2.5 - std::sqrt(1.25), 1e-12);
  EXPECT_NEAR(facts.effective_dimension, std::log(11.0) / std::log(9.0), 1e-12);
  ASSERT_TRUE(facts.complexity.has_value());
  EXPECT_NEAR(*facts.complexity, std::sqrt((3.0 - 1.0 + 0.5) / 5.0), 1e-12);
}

TEST(BestFit, StaysInTheBallAndGainsByALargerOne) {
  const Contexts contexts = draw_contexts(40, 4, 6);
  const NetworkShape shape = shape_of(4, 32, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 1);
  ThreadPool threads(2);
  double last = total_loss(contexts, shape, centre, threads);
  for (const double radius : {0.0, 0.1, 0.5, 2.0}) {
    const BestFit fit = find_best_fit(contexts, shape, centre, centre, radius, 400, threads);
    EXPECT_LE(fit.distance, radius * (1.0 + 1e-5));
    EXPECT_NEAR(fit.loss, total_loss(contexts, shape, fit.network, threads), 1e-9);
    if (radius == 0.0) {
      EXPECT_EQ(fit.loss, last);
    } else {
      EXPECT_LT(fit.loss, 0.95 * last);
    }
    last = fit.loss;
  }
}

TEST(BestFit, FitsAFewContextsWithoutError) {
  const Contexts contexts = draw_contexts(5, 8, 8);
  for (const std::uint32_t depth : {2U, 3U}) {
    const NetworkShape shape = shape_of(8, 64, depth);
    const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 2);
    ThreadPool threads(2);
    const BestFit fit = find_best_fit(contexts, shape, centre, centre, 100.0, 2000, threads);
    EXPECT_LT(fit.loss, 1e-5) << depth;
  }
}

TEST(BestFit, IsTheSameOnAnyNumberOfThreads) {
  const Contexts contexts = draw_contexts(50, 4, 9);
  const NetworkShape shape = shape_of(4, 16, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 3);
  ThreadPool one(1);
  ThreadPool three(3);
  EXPECT_EQ(find_best_fit(contexts, shape, centre, centre, 1.0, 30, one).network,
            find_best_fit(contexts, shape, centre, centre, 1.0, 30, three).network);
}

TheoryStudy small_study(std::uint64_t rounds) {
  TheoryOptions options;
  options.rounds = rounds;
  options.width = 32;
  options.widest = 128;
  options.fit_steps = 20;
  return study_theory({.name = "synthetic",
                       .options = {{"users", "6"}, {"arms", "4"}, {"items", "0"}},
                       .data = nullptr},
                      parse_policy("mcnb:width=16"), options);
}

TEST(TheoryStudy, PutsTheBoundsTogether) {
  const TheoryStudy study = small_study(30);
  EXPECT_EQ(study.contexts, 120U);
  EXPECT_EQ(study.distinct, 120U);
  EXPECT_EQ(study.users, 6U);
  ASSERT_TRUE(study.mean_cluster && study.kernel.complexity);
  EXPECT_GE(study.clusters, 1.0);
  EXPECT_NEAR(study.clusters, 6.0 / *study.mean_cluster, 1e-12);
  const double d = study.kernel.effective_dimension;
  const double s = *study.kernel.complexity;
  const double q = study.clusters;
  ASSERT_EQ(study.difficulties.size(), 2U);
  EXPECT_EQ(study.difficulties[0].radius, 10.0);
  EXPECT_LE(study.difficulties[1].loss, study.difficulties[0].loss);
  EXPECT_NEAR(
      study.paper_bound,
      std::sqrt(q * 30 * study.difficulties[0].loss) + std::sqrt(2 * q * 30 * std::log(10.0)),
      1e-9);
  EXPECT_NEAR(*study.single_bound, std::sqrt(d * 30) * (s + std::sqrt(d)), 1e-9);
  EXPECT_NEAR(*study.cluster_bound, std::sqrt(q * d * 30) * (s + std::sqrt(d)), 1e-9);
  EXPECT_NEAR(*study.lemma_bound, std::pow(std::sqrt(d) + s, 2) * d, 1e-9);
  EXPECT_NEAR(study.naive_bound, std::sqrt(180.0), 1e-9);
  EXPECT_GT(study.regret, 0.0);
  EXPECT_LT(study.distances.back().relative, study.distances.front().relative);
}

TEST(TheoryStudy, RefusesMoreContextsThanItIsMeantFor) {
  plain::expect_error(ErrorKind::kUsage, "expected at most 1250 for 4 arms",
                      [] { small_study(1251); });
}

TEST(Theory, IsShownAndWritten) {
  const TemporaryFolder folder;
  const std::string output = (folder / "theory").string();
  const ProgramOutcome outcome =
      run_program({"theory", "--set", "users=5", "--set", "items=12", "--rounds", "12", "--widest",
                   "64", "--fit-steps", "5", "--output", output, "--policy", "linucb"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  for (const char* part : {"lambda_0", "repeated or parallel", "does not cluster", "kernel.png"}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << outcome.output;
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "theory/theory.csv"));
  EXPECT_TRUE(std::filesystem::exists(folder / "theory/kernel.png"));
  const ProgramOutcome bad = run_program({"theory", "--delta", "1"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.errors.find("delta"), std::string::npos);
}

}  // namespace
}  // namespace mcnb::theory_test
