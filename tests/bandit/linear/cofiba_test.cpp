#include <gtest/gtest.h>

#include <set>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/comparison.h"
#include "tests/bandit/linear/plain_cofiba.h"

namespace mcnb::cofiba_test {
namespace {

using cases::Arrival;
using cases::OwnRound;
using cases::PlainCofiba;
using cases::World;
using plain::expect_error;
using Options = cases::CofibaOptions;

// Items of a catalogue, and users in three groups, each with a linear taste.
OwnRound draw_items(const World& world, std::uint64_t id, std::uint32_t catalogue, bool ids) {
  Rng rng(world.seed, Stream::kTest, id, 77);
  OwnRound own;
  own.round.id = RoundId{id};
  const auto user = static_cast<std::uint32_t>(rng.below(world.users));
  Rng tastes(world.seed, Stream::kTest, user % 3, 79);
  const std::vector<float> taste = cases::draw_unit(tastes, world.features);
  const std::vector<std::uint64_t> items = rng.sample_without_replacement(catalogue, world.arms);
  for (std::uint32_t i = 0; i < world.arms; ++i) {
    Rng looks(world.seed, Stream::kTest, items[i], 78);
    own.features.push_back(cases::draw_unit(looks, world.features));
    double reward = 0.05 * rng.normal();
    for (std::size_t k = 0; k < world.features; ++k) {
      reward += static_cast<double>(taste[k]) * own.features.back()[k];
    }
    own.rewards.push_back(static_cast<float>(reward));
    own.round.arms.push_back(
        {.index = ArmIndex{i},
         .user = UserId{user},
         .item = ids ? ItemId{static_cast<std::uint32_t>(items[i])} : kNoItem});
  }
  for (std::uint32_t i = 0; i < world.arms; ++i) {
    own.round.arms[i].features = {own.features[i], 0};
  }
  return own;
}

using Draw = std::function<OwnRound(const World&, std::uint64_t)>;

struct Comparison : cases::Comparison<PlainCofiba> {
  Comparison(const World& world, const Options& options, Arrival arrival, ThreadPool& threads,
             Draw draw)
      : cases::Comparison<PlainCofiba>(
            {.world = world, .arrival = arrival, .draw = std::move(draw)},
            find_policy("cofiba").build(options.values(), cases::setup_of(world, threads)),
            PlainCofiba(world, options, cases::setup_of(world, threads).seed)) {}
};

// Plays, and requires that items and users separate gradually, not at once.
void expect_splits(Comparison& both, std::uint64_t begin, std::uint64_t end) {
  std::set<std::size_t> item_components;
  std::set<std::size_t> user_components;
  for (std::uint64_t id = begin; id < end; id += 25) {
    both.play(id, id + 25);
    item_components.insert(both.twin().item_component_count());
    user_components.insert(both.twin().most_user_components());
  }
  EXPECT_GE(item_components.size(), 3U) << "items do not come apart";
  EXPECT_GE(user_components.size(), 2U) << "users do not come apart";
  EXPECT_EQ(*user_components.begin(), 1U);
}

TEST(Cofiba, ChoosesAsThePaperDoesWhereItemsHaveIds) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    for (const double alpha : {0.7, 0.3}) {
      const World world{.features = 4, .users = 9};
      Comparison both(
          world, {.alpha = alpha}, arrival, threads,
          [](const World& now, std::uint64_t id) { return draw_items(now, id, 12, true); });
      both.start(cases::draw_start(world));
      expect_splits(both, 0, 600);
      EXPECT_GE(both.twin().item_count(), 10U);
    }
  }
}

TEST(Cofiba, ChoosesAsThePaperDoesWhereGroupsStandForItems) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    const World world{.features = 4, .users = 9};
    Comparison both(
        world, {.alpha = 0.5, .item_groups = 8}, arrival, threads,
        [](const World& now, std::uint64_t id) { return draw_items(now, id, 100, false); });
    both.start(cases::draw_start(world));
    both.play(0, 25);
    EXPECT_EQ(both.twin().item_count(), 0U);
    expect_splits(both, 25, 600);
    EXPECT_EQ(both.twin().item_count(), 8U);
  }
}

TEST(Cofiba, ChoosesAsThePaperDoesWhereClassesStandForItems) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    const World world{.features = 3, .arms = 5, .users = 5, .blocks = true};
    Comparison both(world, {.alpha = 0.3}, arrival, threads, cases::draw_round);
    both.start(cases::draw_start(world));
    expect_splits(both, 0, 600);
    EXPECT_EQ(both.twin().item_count(), 5U);
  }
}

// No start data, users who come later, and ids that turn out to be too many.
TEST(Cofiba, ChoosesAsThePaperDoesWhileUsersAndItemsCome) {
  ThreadPool threads(2);
  const World world{.features = 3, .users = 6};
  const auto draw = [](const World& now, std::uint64_t id) {
    OwnRound own = draw_items(now, id, id < 100 ? 6 : id < 400 ? 14 : 20, true);
    for (Arm& arm : own.round.arms) {
      arm.item = ItemId{static_cast<std::uint32_t>(arm.item) * 300};  // any numbers will do
    }
    return own;
  };
  Comparison both(world, {.alpha = 0.4, .most_items = 14, .item_groups = 6}, Arrival::kAtOnce,
                  threads, draw);
  both.play(0, 150);
  both.add_users(2);
  both.play(150, 300);
  both.add_users(1);
  both.play(300, 400);
  EXPECT_GE(both.twin().item_component_count(), 2U);
  EXPECT_GT(both.twin().item_count(), 6U);
  both.play(400, 700);
  EXPECT_LE(both.twin().item_count(), 6U) << "groups stand for items now";
  EXPECT_GE(both.twin().item_component_count(), 2U);
  EXPECT_GE(both.twin().most_user_components(), 2U);
}

// Tests COFIBA with item ids; policies_test.cpp tests the same without ids.
TEST(Cofiba, GoesOnAlikeAfterALoadAndOnAnyNumberOfThreads) {
  const World world{.features = 4, .users = 9};
  const auto make = [&](ThreadPool& threads) {
    return find_policy("cofiba").build({{"alpha", "0.3"}, {"alpha_2", "1"}, {"items", "auto"}},
                                       cases::setup_of(world, threads));
  };
  const auto play = [&](Policy& policy, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t id = from; id < to; ++id) {
      const OwnRound own = draw_items(world, id, 12, true);
      const ArmIndex choice = policy.choose(own.round);
      policy.learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
    }
  };
  ThreadPool one(1);
  const auto through = make(one);
  play(*through, 0, 300);
  ThreadPool many(5);
  auto broken = make(many);
  for (const std::uint64_t from : {0U, 1U, 100U, 200U}) {
    play(*broken, from, from == 0 ? 1 : from == 1 ? 100 : from + 100);
    const std::string state = cases::saved(*broken);
    broken = make(many);
    cases::load(*broken, state);
    EXPECT_TRUE(cases::saved(*broken) == state) << from;
  }
  EXPECT_TRUE(cases::saved(*broken) == cases::saved(*through));
}

TEST(Cofiba, StartDataCutsNoEdges) {
  const World world{.users = 5};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build({{"alpha_2", "0"}, {"items", "auto"}},
                                                  cases::setup_of(world, threads));
  cases::Session(world, Arrival::kAtOnce).start(*policy);
  const OwnRound own = cases::draw_round(world, 0);
  EXPECT_EQ(policy->cluster(own.round.arms[0])->size(), 5U);
  policy->learn(own.round.id, own.round.arms[0], 1.0F);
  EXPECT_EQ(*policy->cluster(own.round.arms[0]), std::vector<UserId>{own.round.arms[0].user});
}

// Users agree about one kind of items and not about the other; the clusters show it.
TEST(Cofiba, ClustersOfAUserDependOnTheItem) {
  const World world{.features = 2, .arms = 2, .users = 4};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build(
      {{"alpha", "0.3"}, {"alpha_2", "1"}, {"items", "auto"}}, cases::setup_of(world, threads));
  const std::vector<std::vector<float>> looks = {{1.0F, 0.0F}, {0.0F, 1.0F}};
  const auto arm = [&](std::uint32_t item, std::uint32_t user) {
    return Arm{.user = UserId{user}, .item = ItemId{item}, .features = {looks[item], 0}};
  };
  for (std::uint32_t round = 0; round < 400; ++round) {
    const std::uint32_t user = round % 4;
    const std::uint32_t item = round / 4 % 2;
    // All like item 1; only users 0 and 1 like item 0.
    policy->learn(RoundId{round}, arm(item, user), item == 1 || user < 2 ? 1.0F : 0.0F);
  }
  EXPECT_EQ(*policy->cluster(arm(0, 0)), (std::vector<UserId>{UserId{0}, UserId{1}}));
  EXPECT_EQ(*policy->cluster(arm(0, 3)), (std::vector<UserId>{UserId{2}, UserId{3}}));
  EXPECT_EQ(policy->cluster(arm(1, 0))->size(), 4U);
}

// Users with separate blocks have nothing to share, so no state is stored twice, however many user
// graphs there are.
TEST(Cofiba, UserGraphsCostNextToNothingWhereEveryUserHasABlock) {
  const World world{.features = 40, .arms = 8, .users = 8, .blocks = true};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build(
      {{"alpha", "0.1"}, {"alpha_2", "1"}, {"items", "auto"}}, cases::setup_of(world, threads));
  const auto alone =
      find_policy("linucb").build({{"users", "each"}}, cases::setup_of(world, threads));
  for (std::uint64_t id = 0; id < 400; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const ArmIndex choice = policy->choose(own.round);
    policy->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
    alone->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
  }
  EXPECT_LT(policy->memory_bytes(), alone->memory_bytes() + 50'000);
}

// Ten items with a user graph each; every user is repeatedly cut from most of the others.
TEST(Cofiba, UserGraphsCostABitForEachUserOnlyWhereAUserCutEdges) {
  const World world{.features = 4, .users = 3000};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build(
      {{"alpha", "0.01"}, {"alpha_2", "1"}, {"items", "auto"}}, cases::setup_of(world, threads));
  cases::Session(world, Arrival::kAtOnce).start(*policy);
  const std::size_t before = policy->memory_bytes();
  for (std::uint64_t id = 0; id < 100; ++id) {
    const OwnRound own = draw_items(world, id, 10, true);
    const ArmIndex choice = policy->choose(own.round);
    policy->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
  }
  // 100 rows of 3,000 bits, and ten graphs with a few states.
  EXPECT_LT(policy->memory_bytes() - before, 250'000U);
  EXPECT_GT(policy->memory_bytes() - before, 10'000U) << "nobody cut an edge";
}

TEST(Cofiba, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value,
                          const std::string& words) {
    expect_error(ErrorKind::kUsage, words, [&] { find_policy("cofiba").resolve({{name, value}}); });
  };
  refused("lambda", "0", "option lambda: expected a number in [1e-06, 1");
  refused("alpha", "-0.1", "option alpha: expected a number in [0, 1");
  refused("alpha_2", "-0.1", "option alpha_2: expected a number in [0, 1");
  refused("item_groups", "201", "option item_groups: expected a whole number in [1, 200]");
  refused("items", "ids", "option items: expected auto | groups");
  refused("most_items", "1001", "option most_items: expected a whole number in [1, 1000]");
  EXPECT_EQ(find_policy("cofiba").options().size(), 6U);
}

}  // namespace
}  // namespace mcnb::cofiba_test
