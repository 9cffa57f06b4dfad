#include "mcnb/environment/recommendation.h"

#include <algorithm>
#include <map>
#include <set>

#include "mcnb/bandit/policies.h"
#include "tests/data/rating_cases.h"

namespace mcnb::recommendation_test {
namespace {

struct Case {
  std::shared_ptr<const RecommendationData> data;
  std::shared_ptr<const UserPool> pool;
};

Case make_case(const PreparationOptions& preparation = {}, std::uint64_t users = 6) {
  ThreadPool threads(1);
  Case made;
  made.data = std::make_shared<const RecommendationData>(
      prepare_recommendation(random_ratings(60, 50, 0.3, 1), preparation, threads));
  made.pool = std::make_shared<const UserPool>(make_user_pool(*made.data, users, 1, threads));
  return made;
}

ArmIndex arm_at(std::size_t i) { return ArmIndex{static_cast<std::uint32_t>(i)}; }

std::vector<float> numbers(const Features& features) {
  EXPECT_EQ(features.offset, 0U);
  return {features.values.begin(), features.values.end()};
}

bool lists(const ItemLists& items, std::size_t member, ItemId item) {
  const auto own = items.of(member);
  return std::ranges::find(own, static_cast<std::uint32_t>(item)) != own.end();
}

// The features of a pair, by the definition.
std::vector<float> expected_features(const RecommendationData& data, std::size_t member,
                                     std::size_t item, bool with_member) {
  std::vector<float> features(data.item(item).begin(), data.item(item).end());
  if (with_member) {
    features.insert(features.end(), data.member(member).begin(), data.member(member).end());
    const double whole = length(features);
    for (float& value : features) {
      value = static_cast<float>(static_cast<double>(value) / whole);
    }
  }
  return features;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) {
    EXPECT_NEAR(found[j], expected[j], 1e-6);
  }
}

TEST(RecommendationWorld, OneArmIsLikedAndTheOthersAreNot) {
  const Case made = make_case();
  for (const std::uint64_t arms : {1, 2, 10, 25}) {
    for (const ArmFeatures kind : {ArmFeatures::kItem, ArmFeatures::kItemAndUser}) {
      const bool with_member = kind == ArmFeatures::kItemAndUser;
      RecommendationOptions options;
      options.arms = arms;
      options.features = kind;
      RecommendationWorld world(made.data, made.pool, options, 7);
      EXPECT_EQ(world.user_count(), 6U);
      EXPECT_EQ(world.inputs(), with_member ? 20U : 10U);
      for (std::size_t t = 0; t < 100; ++t) {
        const Round& round = world.next_round();
        ASSERT_EQ(index(round.id), t);
        ASSERT_EQ(round.arms.size(), arms);
        double rewards = 0.0;
        for (std::size_t i = 0; i < arms; ++i) {
          const Arm& arm = round.arms[i];
          EXPECT_EQ(index(arm.index), i);
          EXPECT_EQ(arm.user, round.arms[0].user);
          ASSERT_LT(index(arm.user), 6U);
          const std::size_t member = world.member(arm.index);
          const auto members = made.pool->of(index(arm.user));
          EXPECT_TRUE(std::ranges::binary_search(members, member));
          const float reward = world.reward(arm.index);
          EXPECT_EQ(world.expected_reward(arm.index), static_cast<double>(reward));
          EXPECT_TRUE(
              lists(reward > 0 ? made.data->liked : made.data->not_liked, member, arm.item));
          expect_near(numbers(arm.features),
                      expected_features(*made.data, member, index(arm.item), with_member));
          EXPECT_NEAR(length(arm.features.values), 1.0, 1e-6);
          rewards += static_cast<double>(reward);
        }
        EXPECT_EQ(rewards, 1.0);
      }
    }
  }
}

TEST(RecommendationWorld, ItemFeaturesAreBorrowedFromTheData) {
  const Case made = make_case();
  RecommendationWorld world(made.data, made.pool, {}, 1);
  for (const Arm& arm : world.next_round().arms) {
    EXPECT_EQ(arm.features.values.data(), made.data->item(index(arm.item)).data());
  }
  EXPECT_EQ(world.user_features().data(), made.pool->features.data());
  EXPECT_EQ(world.user_features().size(), world.user_count() * world.user_feature_count());
}

// Allows five standard deviations from the expectation of uniform draws.
void expect_uniform(const std::map<std::uint64_t, int>& times, std::size_t kinds, int draws) {
  EXPECT_EQ(times.size(), kinds);
  const double expected = static_cast<double>(draws) / static_cast<double>(kinds);
  for (const auto& [kind, count] : times) {
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << kind;
  }
}

TEST(RecommendationWorld, UsersPositionsAndPairsAreDrawnUniformly) {
  const Case made = make_case();
  RecommendationWorld world(made.data, made.pool, {}, 3);
  std::map<std::uint64_t, int> users;
  std::map<std::uint64_t, int> positions;
  std::map<std::uint64_t, int> liked;  // pairs of user 0
  std::map<std::uint64_t, int> not_liked;
  int liked_draws = 0;
  constexpr int kRounds = 30'000;
  for (int t = 0; t < kRounds; ++t) {
    const Round& round = world.next_round();
    ++users[index(round.arms[0].user)];
    for (std::size_t i = 0; i < 10; ++i) {
      const bool reward = world.reward(arm_at(i)) > 0;
      positions[i] += reward ? 1 : 0;
      if (index(round.arms[0].user) == 0) {
        ++(reward ? liked : not_liked)[world.member(arm_at(i)) * 1000 + index(round.arms[i].item)];
        liked_draws += reward ? 1 : 0;
      }
    }
  }
  expect_uniform(users, 6, kRounds);
  expect_uniform(positions, 10, kRounds);
  std::size_t liked_pairs = 0;
  std::size_t not_liked_pairs = 0;
  for (const std::uint32_t member : made.pool->of(0)) {
    liked_pairs += made.data->liked.count(member);
    not_liked_pairs += made.data->not_liked.count(member);
  }
  expect_uniform(liked, liked_pairs, liked_draws);
  expect_uniform(not_liked, not_liked_pairs, 9 * liked_draws);
}

TEST(RecommendationWorld, TheSameSeedGivesTheSameRoundsWhateverIsAsked) {
  const Case made = make_case({.protocol = Protocol::kNotebook});
  RecommendationOptions options;
  options.protocol = Protocol::kNotebook;
  RecommendationWorld one(made.data, made.pool, options, 5);
  RecommendationWorld two(made.data, made.pool, options, 5);
  RecommendationWorld other(made.data, made.pool, options, 6);
  EXPECT_EQ(one.inputs(), 20U);  // what features = auto means here
  std::size_t different = 0;
  for (std::size_t t = 0; t < 50; ++t) {
    const Round& first = one.next_round();
    const Round& second = two.next_round();
    const Round& third = other.next_round();
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(first.arms[i].user, second.arms[i].user);
      EXPECT_EQ(first.arms[i].item, second.arms[i].item);
      EXPECT_EQ(numbers(first.arms[i].features), numbers(second.arms[i].features));
      EXPECT_EQ(one.reward(arm_at(i)), two.reward(arm_at(i)));
      different += first.arms[i].item != third.arms[i].item ? 1U : 0U;
    }
  }
  EXPECT_GT(different, 400U);
}

// Over many seeds, the start datum of a user is any of its pairs.
TEST(RecommendationWorld, StartDataAreOneRandomPairOfEveryUser) {
  const Case made = make_case();
  for (const ArmFeatures kind : {ArmFeatures::kItem, ArmFeatures::kItemAndUser}) {
    RecommendationOptions options;
    options.features = kind;
    std::set<std::vector<float>> possible[2];  // features of user 2's pairs, by reward
    double liked = 0.0;
    double pairs = 0.0;
    for (const std::uint32_t member : made.pool->of(2)) {
      for (const bool is_liked : {false, true}) {
        for (const std::uint32_t item :
             (is_liked ? made.data->liked : made.data->not_liked).of(member)) {
          std::vector<float> features =
              expected_features(*made.data, member, item, kind == ArmFeatures::kItemAndUser);
          features.resize(10);  // the item's features, maybe at half length, identify it
          for (float& value : features) {
            value = std::round(value * 1e4F);
          }
          possible[is_liked ? 1 : 0].insert(features);
          liked += is_liked ? 1.0 : 0.0;
          pairs += 1.0;
        }
      }
    }
    constexpr int kSeeds = 2000;
    int rewards = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const RecommendationWorld world(made.data, made.pool, options, seed);
      ASSERT_EQ(world.start_data().size(), 6U);
      for (std::size_t user = 0; user < 6; ++user) {
        EXPECT_EQ(index(world.start_data()[user].user), user);
      }
      const Sample& sample = world.start_data()[2].sample;
      EXPECT_NEAR(length(sample.features.values), 1.0, 1e-6);
      std::vector<float> features = numbers(sample.features);
      features.resize(10);
      for (float& value : features) {
        value = std::round(value * 1e4F);
      }
      EXPECT_TRUE(possible[sample.reward > 0 ? 1 : 0].contains(features));
      rewards += sample.reward > 0 ? 1 : 0;
    }
    const double share = liked / pairs;
    EXPECT_NEAR(rewards, kSeeds * share, 5 * std::sqrt(kSeeds * share * (1 - share)));
  }
}

TEST(RecommendationWorld, RandomPlayHasNineTenthsOfTheRoundsForRegret) {
  const Case made = make_case();
  RecommendationWorld world(made.data, made.pool, {}, 9);
  Rng rng(1, Stream::kTest);
  constexpr int kRounds = 10'000;
  double regret = 0.0;
  for (int t = 0; t < kRounds; ++t) {
    world.next_round();
    regret += 1.0 - world.expected_reward(arm_at(static_cast<std::size_t>(rng.below(10))));
  }
  EXPECT_NEAR(regret, 9000.0, 5 * std::sqrt(900.0));
}

TEST(RecommendationWorld, PoliciesLearnInIt) {
  const Case made = make_case();
  ThreadPool threads(1);
  RecommendationOptions options;
  options.features = ArmFeatures::kItemAndUser;  // these tell who likes what
  for (const char* name : {"linucb:users=each", "mcnb", "neuucb-one"}) {
    RecommendationWorld world(made.data, made.pool, options, 2);
    const std::unique_ptr<Policy> policy =
        make_policy(parse_policy(name), {.inputs = world.inputs(),
                                         .users = world.user_count(),
                                         .seed = 1,
                                         .threads = &threads,
                                         .user_features = world.user_features(),
                                         .user_feature_count = world.user_feature_count()});
    for (const StartDatum& datum : world.start_data()) {
      policy->start(datum.user, datum.sample);
    }
    float rewards = 0.0F;  // of the last 200 rounds of 400
    for (int t = 0; t < 400; ++t) {
      const Round& round = world.next_round();
      const ArmIndex arm = policy->choose(round);
      const float reward = world.reward(arm);
      policy->learn(round.id, round.arms[index(arm)], reward);
      rewards += t < 200 ? 0.0F : reward;
    }
    EXPECT_GT(rewards, 40.0F) << name << ": chance gives 20";
  }
}

TEST(RecommendationWorld, RefusesOptionsOutOfRange) {
  const Case made = make_case();
  RecommendationOptions options;
  options.arms = 0;
  expect_error(ErrorKind::kUsage, "option arms",
               [&] { RecommendationWorld(made.data, made.pool, options, 1); });
  RecommendationOptions read;
  recommendation_option_table().set_all(
      read,
      {{"protocol", "notebook"}, {"svd", "held-out"}, {"features", "item+user"}, {"users", "500"}});
  EXPECT_EQ(read.protocol, Protocol::kNotebook);
  EXPECT_EQ(read.svd, SvdSource::kHeldOut);
  EXPECT_EQ(read.features, ArmFeatures::kItemAndUser);
  EXPECT_EQ(read.users, 500U);
  expect_error(ErrorKind::kUsage, "text | notebook",
               [&] { recommendation_option_table().set(read, "protocol", "paper"); });
}

}  // namespace
}  // namespace mcnb::recommendation_test
