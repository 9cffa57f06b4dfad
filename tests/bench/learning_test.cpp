// A short form of `mcnb bench learning`: who learns better than whom, with the features of the
// service.

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>

#include "bench/learning_players.h"
#include "tests/sanitizers.h"

namespace mcnb::bench_learning_test {
namespace {

using namespace bench;

constexpr std::uint64_t kRounds = 2000;
// The sanitizers only see whether all players play: more decisions would take them minutes.
constexpr std::uint64_t kPlayed = kSanitized ? 60 : kRounds;
constexpr std::uint64_t kFirstSeed = 1000001;
constexpr std::uint64_t kSeeds = 2;

// The mean expected reward of the second half, over the seeds.
template <class Make>
double mean_reward(const LearningScenario& scenario, const std::string& policy, Make make) {
  double sum = 0.0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    const ModelOptions model = learning_model(parse_policy(policy), seed);
    const std::unique_ptr<LearningPlayer> player = make(model);
    const std::vector<double> values = play_learning(scenario, seed, kPlayed, model, *player);
    sum += std::accumulate(values.begin() + kPlayed / 2, values.end(), 0.0);
  }
  return sum / static_cast<double>(kSeeds * kPlayed / 2);
}

TEST(BenchLearning, InHiddenGroupsHierarchicalIsAboveAModelPerUserAndMcnbAboveRandomChoice) {
  const LearningScenario& groups = learning_scenarios().front();
  ThreadPool threads(1);
  const auto served = [&](const char* policy) {
    return mean_reward(groups, policy, [&](const ModelOptions& model) {
      return make_served_player(model, threads);
    });
  };
  const auto linear = [&](bool per_user) {
    return mean_reward(groups, "random", [&](const ModelOptions& model) {
      return make_linear_player(model, per_user);
    });
  };
  const double ceiling = mean_reward(groups, "random", make_ceiling_player);
  const double chance = mean_reward(groups, "random", make_random_player);
  const double hierarchical = served("hierarchical");
  const double mcnb = served("mcnb");
  const double per_user = linear(true);
  const double for_all = linear(false);
  if (kSanitized) {
    return;
  }
  EXPECT_GT(ceiling, hierarchical);
  EXPECT_GT(hierarchical, per_user + 0.03);
  EXPECT_GT(hierarchical, mcnb + 0.05);
  EXPECT_GT(per_user, chance + 0.1);
  EXPECT_GT(mcnb, chance + 0.05);
  EXPECT_GT(for_all, chance + 0.05);
}

TEST(BenchLearning, EveryScenarioPlaysAsItSays) {
  for (const LearningScenario& scenario : learning_scenarios()) {
    SCOPED_TRACE(scenario.name);
    const ModelOptions model = learning_model(parse_policy("random"), 3);
    LearningWorld world(scenario, 3);
    LearningWorld again(scenario, 3);
    std::set<std::string> users;
    std::set<std::string> actions;
    std::uint64_t missing = 0;
    for (std::uint64_t number = 0; number < kRounds; ++number) {
      const LearningRound round = world.round(number, model);
      const LearningRound same = again.round(number, model);
      EXPECT_EQ(round.request.features, same.request.features);
      EXPECT_EQ(round.expected, same.expected);
      ASSERT_EQ(round.expected.size(), scenario.actions);
      users.insert(round.request.user_id);
      actions.insert(round.request.actions.begin(), round.request.actions.end());
      const std::optional<std::uint64_t> comes = world.reward_comes(number);
      missing += comes ? 0 : 1;
      EXPECT_GT(comes.value_or(number + 1), number);
      for (const double expected : round.expected) {
        EXPECT_GE(expected, 0.0);
        EXPECT_LE(expected, 1.0);
      }
    }
    EXPECT_EQ(users.size() > scenario.users, scenario.leaving > 0.0);
    EXPECT_EQ(actions.size() > scenario.actions, scenario.replacement > 0);
    EXPECT_NEAR(static_cast<double>(missing) / kRounds, scenario.missing, 0.05);
  }
}

}  // namespace
}  // namespace mcnb::bench_learning_test
