#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/experiment/run/runner.h"
#include "mcnb/theory/kernel.h"
#include "mcnb/theory/study.h"
#include "tests/cli/program.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::study_test {
namespace {

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
  options.width = 16;  // the fourth root of the width is 2
  const TheoryStudy study = study_theory(small_world("0"), parse_policy("random"), options);
  EXPECT_EQ(study.difficulty.radius, 100.0);
  EXPECT_EQ(study.lemma_difficulty.radius, 8.0);
  EXPECT_LE(study.lemma_difficulty.distance, 4.0 * (1.0 + 1e-6));
  // The table uses the result for the lemma's radius, not the other one.
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
}  // namespace mcnb::study_test
