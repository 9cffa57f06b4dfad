#include <gtest/gtest.h>

#include "mcnb/bandit/policies.h"
#include "mcnb/environment/synthetic.h"
#include "mcnb/experiment/run/cluster_quality.h"
#include "tests/sanitizers.h"

namespace mcnb::cluster_recovery_test {
namespace {

// The mean over all users of how well the policy's cluster of a user matches the true one.
double adjusted_rand(Policy& policy, const SyntheticWorld& world, const Arm& arm) {
  const std::vector<std::uint32_t> groups = world.true_groups(arm.index);
  double sum = 0.0;
  for (std::uint32_t user = 0; user < groups.size(); ++user) {
    std::vector<UserId> truth;
    for (std::uint32_t other = 0; other < groups.size(); ++other) {
      if (groups[other] == groups[user]) {
        truth.push_back(UserId{other});
      }
    }
    Arm asked = arm;
    asked.user = UserId{user};
    sum += compare_clusters(policy.cluster(asked).value(), truth, groups.size()).adjusted_rand;
  }
  return sum / static_cast<double>(groups.size());
}

struct Recovery {
  double early = 0.0;  // after 200 rounds
  double late = 0.0;   // after 20,000
};

Recovery play(const std::string& policy_text, bool constant_feature, std::uint64_t seed) {
  SyntheticWorld world({.users = 50,
                        .clusters = 5,
                        .constant_feature = constant_feature,
                        .reward = RewardShape::kLinear,
                        .gap = 0.1,
                        .noise = RewardNoise::kGaussian},
                       seed);
  ThreadPool threads(1);
  const auto policy =
      make_policy(parse_policy(policy_text),
                  {.inputs = world.inputs(), .users = world.user_count(), .threads = &threads});
  for (const StartDatum& datum : world.start_data()) {
    policy->start(datum.user, datum.sample);
  }
  Recovery recovery;
  for (int t = 1; t <= 20'000; ++t) {
    const Round& round = world.next_round();
    const ArmIndex choice = policy->choose(round);
    policy->learn(round.id, round.arms[index(choice)], world.reward(choice));
    if (t == 200) {
      recovery.early = adjusted_rand(*policy, world, round.arms[0]);
    } else if (t == 20'000) {
      recovery.late = adjusted_rand(*policy, world, round.arms[0]);
    }
  }
  return recovery;
}

void expect_recovery(const std::string& policy, bool constant_feature) {
  constexpr std::uint64_t kSeeds = kThreadSanitized ? 1 : 5;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << policy << ", seed " << seed);
    const Recovery recovery = play(policy, constant_feature, seed);
    EXPECT_LT(recovery.early, 0.5) << "nothing to learn";
    EXPECT_GT(recovery.late, 0.9);
  }
}

TEST(ClusterRecovery, ClubFindsTheTrueClustersOfALinearWorldWithThePapersOptions) {
  expect_recovery("club:alpha_2=1", true);
}

TEST(ClusterRecovery, SclubFindsTheTrueClustersOfALinearWorldWithThePapersOptions) {
  expect_recovery("sclub:alpha_w=1", true);
}

// Without the constant feature, linear models cannot express (1 + a.x) / 2. CLUB still works,
// because it compares users with each other and all of them have the same error.
TEST(ClusterRecovery, ClubFindsThemWithoutTheConstantFeatureToo) {
  expect_recovery("club:alpha_2=1", false);
}

}  // namespace
}  // namespace mcnb::cluster_recovery_test
