#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"

#include <gtest/gtest.h>

#include "tests/bandit/policy_cases.h"

namespace mcnb::random_policy_test {
namespace {

using cases::World;

TEST(RandomPolicy, ChoosesEveryArmEquallyOften) {
  const World world{.arms = 5};
  ThreadPool threads(1);
  const auto policy = find_policy("random").build({}, cases::setup_of(world, threads));
  cases::OwnRound own = cases::draw_round(world, 0);
  std::vector<double> counts(world.arms, 0.0);
  constexpr std::uint64_t kRounds = 20'000;
  for (std::uint64_t id = 0; id < kRounds; ++id) {
    own.round.id = RoundId{id};
    ++counts[index(policy->choose(own.round))];
  }
  double chi_square = 0.0;
  for (const double count : counts) {
    const double expected = static_cast<double>(kRounds) / 5.0;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 23.5);  // 4 degrees of freedom: exceeded once in 10,000 seeds
}

TEST(RandomPolicy, DependsOnSeedAndRoundAlone) {
  const World world{.arms = 50};
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of(world, threads);
  const auto first = find_policy("random").build({}, setup);
  const auto second = find_policy("random").build({}, setup);
  setup.seed = 8;
  const auto other = find_policy("random").build({}, setup);
  std::size_t same = 0;
  for (std::uint64_t id = 0; id < 100; ++id) {
    const cases::OwnRound own = cases::draw_round(world, id);
    const ArmIndex choice = first->choose(own.round);
    EXPECT_EQ(choice, first->choose(own.round));
    first->learn(own.round.id, own.arm(choice), 1.0F);
    EXPECT_EQ(choice, second->choose(own.round));
    same += choice == other->choose(own.round) ? 1 : 0;
  }
  EXPECT_LT(same, 10U);
}

TEST(RandomPolicy, HasNoOptions) {
  EXPECT_TRUE(find_policy("random").options().empty());
  plain::expect_error(ErrorKind::kUsage, "option alpha: expected no options, got \"1\"", [] {
    find_policy("random").resolve({{"alpha", "1"}});
  });
}

}  // namespace
}  // namespace mcnb::random_policy_test
