#include "mcnb/experiment/run/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/environment/synthetic.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb::runner_test {
namespace {

// A policy with a fixed rule that records what it is told.
class Scripted final : public Policy {
 public:
  explicit Scripted(std::size_t stride) : stride_(stride) {}

  std::size_t user_count() const override { return 0; }
  void add_users(std::size_t) override {}
  void start(UserId user, const Sample& sample) override {
    starts.push_back(user);
    start_rewards.push_back(sample.reward);
  }
  ArmIndex choose(const Round& round) override {
    return ArmIndex{static_cast<std::uint32_t>(stride_ * index(round.id) % round.arms.size())};
  }
  std::vector<Score> scores(const Round&) override { return {}; }
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    cluster_asked.push_back(learned.size());
    return clusters ? std::optional(std::vector{arm.user}) : std::nullopt;
  }
  void learn(RoundId round, const Arm& arm, float reward) override {
    EXPECT_EQ(index(round), learned.size());
    learned.push_back(arm.index);
    rewards.push_back(reward);
  }
  StepCounts steps() const override { return {17, 4}; }
  std::size_t memory_bytes() const override { return 99; }
  void save(StateWriter&) const override {}
  void load(StateReader&) override {}

  bool clusters = false;
  std::vector<UserId> starts;
  std::vector<float> start_rewards;
  std::vector<ArmIndex> learned;
  std::vector<float> rewards;
  std::vector<std::size_t> cluster_asked;

 private:
  std::size_t stride_;
};

SyntheticOptions small() {
  SyntheticOptions options;
  options.users = 8;
  options.clusters = 2;
  options.features = 4;
  options.arms = 5;
  options.items = 20;
  return options;
}

TEST(Runner, RegretIsTheBestLessTheChosenAndCurvesAreItsSums) {
  for (const std::uint64_t rounds : {1, 7, 499, 500, 501, 1234}) {
    SyntheticWorld world(small(), 3);
    Scripted policy(2);
    RunControl control;
    const CellResult result = *play(world, policy, rounds, control);

    SyntheticWorld again(small(), 3);
    std::vector<double> sums{0.0};
    double rewards = 0.0;
    for (std::uint64_t t = 0; t < rounds; ++t) {
      const Round& round = again.next_round();
      double best = 0.0;
      for (const Arm& arm : round.arms) {
        best = std::max(best, again.expected_reward(arm.index));
      }
      sums.push_back(sums.back() + (best - again.expected_reward(policy.learned[t])));
      rewards += static_cast<double>(policy.rewards[t]);
      EXPECT_EQ(policy.rewards[t], again.reward(policy.learned[t]));
    }
    EXPECT_EQ(result.regret, sums.back());
    EXPECT_EQ(result.reward, rewards);
    EXPECT_EQ(result.rounds, rounds);
    EXPECT_LE(result.curve.size(), kCurvePoints + 1);
    EXPECT_GE(result.curve.size(), std::min<std::uint64_t>(rounds, kCurvePoints / 2));
    for (const RegretPoint& point : result.curve) {
      EXPECT_EQ(point.regret, sums[point.round]);
    }
    EXPECT_EQ(result.curve.back().round, rounds);
    EXPECT_EQ(control.rounds_done, rounds);
    EXPECT_EQ(result.steps.training, 17U);
    EXPECT_EQ(result.steps.adaptation, 4U);
    EXPECT_EQ(result.memory_bytes, 99U);
    EXPECT_TRUE(result.quality.empty());
  }
}

TEST(Runner, EveryPolicyGetsTheSameStartData) {
  std::vector<float> rewards;
  for (const std::size_t stride : {1U, 3U}) {
    SyntheticWorld world(small(), 5);
    Scripted policy(stride);
    RunControl control;
    play(world, policy, 3, control);
    ASSERT_EQ(policy.starts.size(), 8U);
    if (rewards.empty()) {
      rewards = policy.start_rewards;
    }
    EXPECT_EQ(policy.start_rewards, rewards);
  }
}

TEST(Runner, MeasuresClustersOfTheChosenArmBeforeItIsLearned) {
  SyntheticWorld world(small(), 3);
  Scripted policy(2);
  policy.clusters = true;
  RunControl control;
  const CellResult result = *play(world, policy, 1000, control);
  ASSERT_EQ(result.quality.size(), 200U);
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(result.quality[i].round, 5 * (i + 1));
    EXPECT_EQ(policy.cluster_asked[i], 5 * (i + 1) - 1);
    EXPECT_EQ(result.quality[i].quality.precision, 1.0);  // the user alone, of a group of four
    EXPECT_EQ(result.quality[i].quality.recall, 0.25);
  }
}

TEST(Runner, StopsWhenTold) {
  SyntheticWorld world(small(), 3);
  Scripted policy(1);
  RunControl control;
  control.stop = true;
  EXPECT_FALSE(play(world, policy, 1000, control).has_value());
  EXPECT_TRUE(policy.learned.empty());
}

TEST(Runner, PartsOfTheSecondsAreThoseThatThePolicyMeasures) {
  RunControl control;
  const EnvironmentSpec world{"synthetic", {{"users", "8"}, {"items", "0"}}, nullptr};
  const CellResult mcnb = *run_cell({world, parse_policy("mcnb:width=8"), 1, 60}, control);
  ASSERT_TRUE(mcnb.parts.has_value());
  EXPECT_GT(mcnb.parts->clustering, 0.0);
  EXPECT_GT(mcnb.parts->adaptation, 0.0);
  EXPECT_GT(mcnb.parts->training, 0.0);
  EXPECT_FALSE(run_cell({world, parse_policy("random"), 1, 60}, control)->parts.has_value());
}

TEST(Runner, TheOracleHasNoRegret) {
  RunControl control;
  const Cell cell{{"synthetic", {}}, parse_policies("oracle").front(), 4, 300};
  const CellResult result = *run_cell(cell, control);
  EXPECT_EQ(result.regret, 0.0);
  EXPECT_GT(result.reward, 0.0);
  EXPECT_EQ(result.policy, "oracle");
  EXPECT_EQ(result.seed, 4U);
}

TEST(ExperimentPolicies, AreReadFromAList) {
  const std::vector<PolicySpec> policies = parse_policies("random,oracle,linucb:alpha=0.5");
  ASSERT_EQ(policies.size(), 3U);
  EXPECT_EQ(policies[0].name, "random");
  EXPECT_EQ(policies[1].name, "oracle");
  EXPECT_EQ(policies[2].label, "linucb:alpha=0.5");
  for (const char* bad : {"", "nobody", "random,random", "oracle:eyes=2", "random,,oracle",
                          "linucb:alpha=-1", "linucb:beta=1"}) {
    EXPECT_THROW(parse_policies(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace mcnb::runner_test
