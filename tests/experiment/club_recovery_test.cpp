#include <gtest/gtest.h>

#include "mcnb/bandit/policies.h"
#include "mcnb/environment/synthetic.h"
#include "mcnb/experiment/cluster_quality.h"

namespace mcnb {
namespace {

// The mean over all users: how well the cluster that the policy gives a user is the true one.
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

TEST(ClubRecovery, FindsTheTrueClustersOfALinearWorldWithItsStandardOptions) {
  for (const std::uint64_t seed : {1U, 2U}) {
    SyntheticWorld world({.users = 50,
                          .clusters = 5,
                          .reward = RewardShape::kLinear,
                          .gap = 0.1,
                          .noise = RewardNoise::kGaussian},
                         seed);
    ThreadPool threads(1);
    const auto policy =
        make_policy(parse_policy("club"),
                    {.inputs = world.inputs(), .users = world.user_count(), .threads = &threads});
    for (const StartDatum& datum : world.start_data()) {
      policy->start(datum.user, datum.sample);
    }
    for (int t = 1; t <= 20'000; ++t) {
      const Round& round = world.next_round();
      const ArmIndex choice = policy->choose(round);
      policy->learn(round.id, round.arms[index(choice)], world.reward(choice));
      if (t == 1000) {
        EXPECT_LT(adjusted_rand(*policy, world, round.arms[0]), 0.5) << "nothing to learn";
      } else if (t == 20'000) {
        EXPECT_GT(adjusted_rand(*policy, world, round.arms[0]), 0.9);
      }
    }
  }
}

}  // namespace
}  // namespace mcnb
