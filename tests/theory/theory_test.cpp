#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/experiment/experiment_policies.h"
#include "mcnb/experiment/runner.h"
#include "mcnb/theory/best_fit.h"
#include "mcnb/theory/kernel.h"
#include "mcnb/theory/study.h"
#include "tests/cli/program.h"
#include "tests/numeric/plain_network.h"
#include "tests/sanitizers.h"

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

// The rewards are those of a network in the ball: the least loss is zero. Plain descent along the
// gradient is still at 2e-3 of the first loss after 300 steps, each of two evaluations or more.
TEST(BestFit, ComesNearALeastLossThatIsKnown) {
  const NetworkShape shape = shape_of(5, 32, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 4);
  std::vector<float> teacher = centre;
  Rng rng(5, Stream::kTest);
  double squares = 0.0;
  for (float& value : teacher) {
    const double way = 0.15 * rng.normal();
    value += static_cast<float>(way);
    squares += way * way;
  }
  Contexts contexts = draw_contexts(300, 5, 11);
  GradientFactors factors;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    find_gradient(shape, teacher, contexts.features(i), factors);
    contexts.rewards[i] = static_cast<double>(factors.value);
  }
  ThreadPool threads(2);
  const double radius = 1.01 * std::sqrt(squares);
  const double first = total_loss(contexts, shape, centre, threads);
  const BestFit fit = find_best_fit(contexts, shape, centre, centre, radius, 300, threads);
  EXPECT_LE(fit.evaluations, 300U);
  EXPECT_LE(fit.distance, radius * (1.0 + 1e-6));
  EXPECT_LT(fit.loss, 5e-4 * first);
}

TEST(BestFit, SaysWhenItWasStopped) {
  const Contexts contexts = draw_contexts(60, 4, 12);
  const NetworkShape shape = shape_of(4, 32, 2);
  const std::vector<float> centre = random_network(shape, Initialisation::kPaper, 5);
  ThreadPool threads(1);
  const BestFit fit = find_best_fit(contexts, shape, centre, centre, 5.0, 8, threads);
  EXPECT_FALSE(fit.converged);
  EXPECT_EQ(fit.evaluations, 8U);
  EXPECT_LT(fit.loss, total_loss(contexts, shape, centre, threads));
}

// By hand, for n = 8, T = 50, q = 2, S* = 9, d~ = 4, S = 3 and delta = 1/10.
TEST(Bounds, HaveTheValuesFoundByHand) {
  BoundTerms terms{.users = 8.0,
                   .rounds = 50.0,
                   .clusters = 2.0,
                   .delta = 0.1,
                   .difficulty = 9.0,
                   .dimension = 4.0,
                   .complexity = 3.0};
  const Bounds bounds = find_bounds(terms);
  EXPECT_NEAR(bounds.paper, 30.0 + 21.4596, 1e-4);  // the root of 200 log 10 = 460.517
  ASSERT_TRUE(bounds.single && bounds.clustered && bounds.lemma);
  EXPECT_NEAR(*bounds.single, 70.7107, 1e-4);
  EXPECT_NEAR(*bounds.clustered, 100.0, 1e-9);
  EXPECT_NEAR(*bounds.lemma, 100.0, 1e-9);
  EXPECT_NEAR(bounds.naive, 20.0, 1e-9);

  terms.complexity.reset();
  const Bounds without = find_bounds(terms);
  EXPECT_EQ(without.paper, bounds.paper);
  EXPECT_FALSE(without.single || without.clustered || without.lemma);
}

// Two arms for one user, all rewards below zero; the first is always the worse one, by 0.25.
class Debts final : public Environment {
 public:
  std::size_t user_count() const override { return 1; }
  std::uint32_t inputs() const override { return 2; }
  std::span<const StartDatum> start_data() const override { return {}; }
  const Round& next_round() override {
    round_.id = RoundId{next_++};
    round_.arms = {{.index = ArmIndex{0}, .features = {first_}},
                   {.index = ArmIndex{1}, .features = {second_}}};
    return round_;
  }
  float reward(ArmIndex arm) const override { return static_cast<float>(expected_reward(arm)); }
  double expected_reward(ArmIndex arm) const override { return index(arm) == 0 ? -0.75 : -0.5; }

 private:
  std::vector<float> first_{1.0F, 0.0F};
  std::vector<float> second_{0.0F, 1.0F};
  std::uint64_t next_ = 0;
  Round round_;
};

TEST(TheoryStudy, MeasuresTheRegretOfRewardsBelowZeroAsTheRunnerDoes) {
  ThreadPool threads(1);
  const auto policy_for = [&](const Environment& environment) {
    return make_experiment_policy(parse_policy("random"), setup_for(environment, 3, threads),
                                  environment);
  };
  Debts debts;
  const Measured measured = measure_policy(debts, *policy_for(debts), 40);
  Debts again;
  RunControl control;
  const std::optional<CellResult> played = play(again, *policy_for(again), 40, control);
  ASSERT_TRUE(played.has_value());
  EXPECT_EQ(measured.regret, played->regret);
  EXPECT_GT(measured.regret, 0.0);
  EXPECT_LT(measured.regret, 40 * 0.25);
  EXPECT_FALSE(measured.mean_cluster.has_value());
}

TheoryOptions small_options(std::uint64_t rounds) {
  TheoryOptions options;
  options.rounds = rounds;
  options.width = 32;
  options.widest = 128;
  return options;
}

EnvironmentSpec small_world(const std::string& items) {
  return {.name = "synthetic",
          .options = {{"users", "6"}, {"arms", "4"}, {"items", items}},
          .data = nullptr};
}

TheoryStudy small_study(std::uint64_t rounds) {
  TheoryOptions options = small_options(rounds);
  options.fit_steps = 20;
  return study_theory(small_world("0"), parse_policy("mcnb:width=16"), options);
}

std::string row_of(const TheoryStudy& study, const std::string& quantity) {
  const std::string all = theory_table(study).aligned();
  const std::size_t begin = all.find("\n" + quantity + " ") + 1;
  return all.substr(begin, all.find('\n', begin) - begin);
}

TEST(TheoryStudy, HasTwoThousandContextsWhereRoundsAreNotSaid) {
  TheoryOptions options = small_options(0);
  options.fit_steps = 2;
  const TheoryStudy study = study_theory(small_world("20"), parse_policy("random"), options);
  EXPECT_EQ(study.contexts, 2'000U);
  EXPECT_EQ(study.options.rounds, 500U);
}

TEST(TheoryStudy, MeasuresARun) {
  const TheoryStudy study = small_study(30);
  EXPECT_EQ(study.contexts, 120U);
  EXPECT_EQ(study.distinct, 120U);
  EXPECT_EQ(study.users, 6U);
  ASSERT_TRUE(study.measured.mean_cluster && study.kernel.complexity);
  EXPECT_GE(study.clusters, 1.0);
  EXPECT_NEAR(study.clusters * *study.measured.mean_cluster, 6.0, 1e-12);
  EXPECT_EQ(study.difficulty.radius, 10.0);
  EXPECT_LE(study.lemma_difficulty.loss, study.difficulty.loss);
  EXPECT_GT(study.measured.regret, 0.0);
  EXPECT_LT(study.distances.back().relative, study.distances.front().relative);
  // 13.4164 is the root of 6 * 30.
  EXPECT_NEAR(study.bounds.naive, 13.4164, 1e-4);
}

TEST(TheoryStudy, CallsAnUpperEstimateByItsName) {
  TheoryStudy study = small_study(30);
  EXPECT_FALSE(study.difficulty.converged);
  for (const char* row : {"S*", "S*, distinct", "bound"}) {
    EXPECT_NE(row_of(study, row).find("upper estimate"), std::string::npos) << row_of(study, row);
  }
  study.difficulty.converged = study.lemma_difficulty.converged = true;
  for (const char* row : {"S*", "S*, distinct", "bound"}) {
    EXPECT_EQ(row_of(study, row).find("upper estimate"), std::string::npos) << row_of(study, row);
  }
}

TEST(TheoryStudy, ArrivesWithTheDefaultOptions) {
  const TheoryStudy study =
      study_theory(small_world("0"), parse_policy("random"), small_options(30));
  EXPECT_TRUE(study.difficulty.converged);
  EXPECT_TRUE(study.lemma_difficulty.converged);
}

// Five items and users who disagree: the mean rewards of the items can be fitted, those of all
// arms cannot.
TEST(TheoryStudy, ChecksTheLemmaOnTheDistinctContextsAlone) {
  const EnvironmentSpec world = small_world("5");
  const TheoryStudy study = study_theory(world, parse_policy("random"), small_options(40));
  const Contexts all = collect_contexts(*make_environment(world, 1), 40);
  ASSERT_EQ(study.contexts, 160U);
  ASSERT_EQ(study.distinct, 5U);
  double spread = 0.0;  // what is left when every item is given its mean
  const Contexts items = distinct_directions(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < items.size(); ++j) {
      if (std::ranges::equal(all.features(i).values, items.features(j).values)) {
        spread += 0.5 * std::pow(all.rewards[i] - items.rewards[j], 2);
      }
    }
  }
  ASSERT_GT(spread, 0.1);
  EXPECT_GT(study.difficulty.loss, 0.999 * spread);
  EXPECT_LT(study.lemma_difficulty.loss, 0.01 * spread);
  const Eigen::MatrixXd kernel = tangent_kernel(inner_products(items), 2);
  const Eigen::MatrixXd sum = Eigen::MatrixXd::Identity(5, 5) + kernel;
  EXPECT_NEAR(study.kernel.effective_dimension, std::log(sum.determinant()) / std::log(6.0), 1e-9);
}

TEST(TheoryStudy, TakesTheLemmasRadiusEvenWhereItIsTheSmallerOne) {
  TheoryOptions options = small_options(4);
  options.radius = 100.0;
  options.width = 16;  // whose fourth root is 2
  const TheoryStudy study = study_theory(small_world("0"), parse_policy("random"), options);
  EXPECT_EQ(study.difficulty.radius, 100.0);
  EXPECT_EQ(study.lemma_difficulty.radius, 8.0);
  EXPECT_LE(study.lemma_difficulty.distance, 4.0 * (1.0 + 1e-6));
  // The table judges by the lemma's, not by the other.
  TheoryStudy judged = study;
  judged.bounds.lemma = 5.0;
  judged.difficulty.loss = 1.0;
  judged.lemma_difficulty = {8.0, 6.0, 4.0, 10, true};
  EXPECT_NE(row_of(judged, "lemma").find("does NOT hold"), std::string::npos);
  judged.lemma_difficulty.converged = false;
  EXPECT_NE(row_of(judged, "lemma").find("open"), std::string::npos);
  judged.difficulty.loss = 6.0;
  judged.lemma_difficulty.loss = 4.0;
  EXPECT_NE(row_of(judged, "lemma").find("holds: "), std::string::npos);
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
