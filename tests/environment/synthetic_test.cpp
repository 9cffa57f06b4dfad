#include "mcnb/environment/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "mcnb/base/error.h"
#include "mcnb/environment/environments.h"
#include "mcnb/numeric/ridge.h"

namespace mcnb::synthetic_test {
namespace {

constexpr RewardShape kShapes[] = {RewardShape::kLinear, RewardShape::kCosine,
                                   RewardShape::kQuadratic, RewardShape::kNetwork};

SyntheticOptions small() {
  SyntheticOptions options;
  options.users = 12;
  options.clusters = 3;
  options.features = 5;
  options.arms = 4;
  options.items = 30;
  options.gap = 0.05;
  return options;
}

ArmIndex arm_at(std::size_t i) { return ArmIndex{static_cast<std::uint32_t>(i)}; }

std::vector<float> numbers(const Features& features) {
  return {features.values.begin(), features.values.end()};
}

std::string complaint(const SyntheticOptions& options) {
  try {
    SyntheticWorld world(options, 1);
    world.next_round();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "none";
}

TEST(SyntheticWorld, OffersUnitVectorsOfDistinctItemsToOneUser) {
  for (const std::uint64_t items : {0, 30}) {
    SyntheticOptions options = small();
    options.items = items;
    options.topics = 3;
    SyntheticWorld world(options, 7);
    for (std::size_t t = 0; t < 200; ++t) {
      const Round& round = world.next_round();
      ASSERT_EQ(index(round.id), t);
      ASSERT_EQ(round.arms.size(), 4U);
      std::set<ItemId> seen;
      std::set<std::vector<float>> vectors;
      for (std::size_t i = 0; i < 4; ++i) {
        const Arm& arm = round.arms[i];
        EXPECT_EQ(index(arm.index), i);
        EXPECT_EQ(arm.user, round.arms[0].user);
        EXPECT_LT(index(arm.user), 12U);
        double squares = 0.0;
        for (const float value : arm.features.values) {
          squares += static_cast<double>(value) * static_cast<double>(value);
        }
        EXPECT_NEAR(squares, 1.0, 1e-6);
        EXPECT_EQ(arm.item == kNoItem, items == 0);
        seen.insert(arm.item);
        vectors.insert(numbers(arm.features));
      }
      EXPECT_EQ(vectors.size(), 4U);
      EXPECT_EQ(seen.size(), items == 0 ? 1U : 4U);
    }
  }
}

TEST(SyntheticWorld, AnItemLooksTheSameWheneverItIsOffered) {
  SyntheticWorld world(small(), 3);
  std::map<ItemId, std::vector<float>> catalogue;
  for (std::size_t t = 0; t < 200; ++t) {
    for (const Arm& arm : world.next_round().arms) {
      const auto [known, fresh] = catalogue.try_emplace(arm.item, numbers(arm.features));
      EXPECT_EQ(known->second, numbers(arm.features));
    }
  }
  EXPECT_EQ(catalogue.size(), 30U);
}

// Brute force over all pairs of groups on all arms that are offered.
TEST(SyntheticWorld, KeepsTheGapBetweenAllGroupsOnEveryArm) {
  for (const RewardShape shape : kShapes) {
    for (const std::uint64_t items : {0, 30}) {
      for (const std::uint64_t topics : {1, 3}) {
        SyntheticOptions options = small();
        options.reward = shape;
        options.items = items;
        options.topics = topics;
        options.gap = 0.1;
        SyntheticWorld world(options, 11);
        for (std::size_t t = 0; t < 50; ++t) {
          world.next_round();
          for (std::size_t i = 0; i < options.arms; ++i) {
            const std::span<const double> values = world.group_values(arm_at(i));
            ASSERT_EQ(values.size(), 3U);
            for (std::size_t g = 0; g < 3; ++g) {
              EXPECT_GE(values[g], 0.0);
              EXPECT_LE(values[g], 1.0);
              for (std::size_t h = 0; h < g; ++h) {
                EXPECT_GE(std::abs(values[g] - values[h]), 0.1);
              }
            }
          }
        }
      }
    }
  }
}

TEST(SyntheticWorld, SameSeedGivesTheSameRoundsAndRewardsWhateverIsAsked) {
  for (const RewardNoise noise :
       {RewardNoise::kNone, RewardNoise::kBernoulli, RewardNoise::kGaussian}) {
    SyntheticOptions options = small();
    options.noise = noise;
    SyntheticWorld a(options, 5);
    SyntheticWorld b(options, 5);
    SyntheticWorld other(options, 6);
    bool differs = false;
    for (std::size_t t = 0; t < 100; ++t) {
      const Round& in_a = a.next_round();
      // Only one of the two is asked for rewards, in every other round, twice.
      if (t % 2 == 0) {
        EXPECT_EQ(a.reward(arm_at(1)), a.reward(arm_at(1)));
      }
      const Round& in_b = b.next_round();
      const Round& in_other = other.next_round();
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(in_a.arms[i].user, in_b.arms[i].user);
        EXPECT_EQ(in_a.arms[i].item, in_b.arms[i].item);
        EXPECT_EQ(numbers(in_a.arms[i].features), numbers(in_b.arms[i].features));
        EXPECT_EQ(a.reward(arm_at(i)), b.reward(arm_at(i)));
        differs |= in_a.arms[i].item != in_other.arms[i].item;
      }
    }
    EXPECT_TRUE(differs);
  }
}

TEST(SyntheticWorld, UsersAgreeExactlyWithinTheirTrueCluster) {
  SyntheticOptions options = small();
  options.topics = 2;
  SyntheticWorld world(options, 2);
  for (std::size_t t = 0; t < 100; ++t) {
    const Round& round = world.next_round();
    for (std::size_t i = 0; i < options.arms; ++i) {
      const std::vector<std::uint32_t> groups = world.true_groups(arm_at(i));
      const std::vector<UserId> cluster = world.true_cluster(arm_at(i));
      ASSERT_EQ(groups.size(), 12U);
      const std::span<const double> values = world.group_values(arm_at(i));
      for (std::size_t user = 0; user < 12; ++user) {
        const bool agrees = values[groups[user]] == world.expected_reward(arm_at(i));
        const UserId id{static_cast<std::uint32_t>(user)};
        EXPECT_EQ(std::ranges::binary_search(cluster, id), agrees);
      }
      EXPECT_TRUE(std::ranges::binary_search(cluster, round.arms[i].user));
      EXPECT_EQ(cluster.size(), 4U);  // 12 users in 3 equal groups
    }
  }
}

TEST(SyntheticWorld, GroupsAreRelativeToTheTopic) {
  SyntheticOptions options = small();
  options.topics = 3;
  SyntheticWorld world(options, 4);
  std::map<std::size_t, std::vector<std::uint32_t>> groups;
  std::map<ItemId, std::size_t> topics;
  for (std::size_t t = 0; t < 300; ++t) {
    const Round& round = world.next_round();
    for (const Arm& arm : round.arms) {
      const std::size_t topic = world.topic(arm.index);
      const std::vector<std::uint32_t> of_arm = world.true_groups(arm.index);
      EXPECT_EQ(groups.try_emplace(topic, of_arm).first->second, of_arm);
      EXPECT_EQ(topics.try_emplace(arm.item, topic).first->second, topic);
    }
  }
  ASSERT_EQ(groups.size(), 3U);
  // As partitions: is there a pair of users that agrees on one topic and not on another?
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      bool differ = false;
      for (std::size_t u = 0; u < 12; ++u) {
        for (std::size_t v = 0; v < u; ++v) {
          differ |= (groups[a][u] == groups[a][v]) != (groups[b][u] == groups[b][v]);
        }
      }
      EXPECT_TRUE(differ) << a << " " << b;
    }
  }
}

// The mean of the noise is compared with what a sum of independent numbers in [0, 1] allows.
TEST(SyntheticWorld, NoiseHasMeanZero) {
  for (const RewardNoise noise : {RewardNoise::kBernoulli, RewardNoise::kGaussian}) {
    SyntheticOptions options = small();
    options.noise = noise;
    options.noise_deviation = 0.5;
    SyntheticWorld world(options, 9);
    constexpr int kRounds = 20'000;
    double sum = 0.0;
    for (int t = 0; t < kRounds; ++t) {
      world.next_round();
      const float reward = world.reward(arm_at(0));
      ASSERT_GE(reward, 0.0F);
      ASSERT_LE(reward, 1.0F);
      if (noise == RewardNoise::kBernoulli) {
        ASSERT_TRUE(reward == 0.0F || reward == 1.0F);
      }
      sum += static_cast<double>(reward) - world.expected_reward(arm_at(0));
    }
    EXPECT_LT(std::abs(sum / kRounds), 4.0 * 0.5 / std::sqrt(kRounds));
  }
}

TEST(SyntheticWorld, WithoutNoiseTheRewardIsTheExpectedOne) {
  SyntheticOptions options = small();
  options.noise = RewardNoise::kNone;
  SyntheticWorld world(options, 9);
  for (int t = 0; t < 50; ++t) {
    world.next_round();
    EXPECT_EQ(world.reward(arm_at(2)), static_cast<float>(world.expected_reward(arm_at(2))));
  }
}

TEST(SyntheticWorld, StartDataIsOneSampleForEveryUser) {
  for (const std::uint64_t items : {0, 30}) {
    SyntheticOptions options = small();
    options.items = items;
    const SyntheticWorld a(options, 1);
    const SyntheticWorld b(options, 1);
    ASSERT_EQ(a.start_data().size(), 12U);
    for (std::size_t user = 0; user < 12; ++user) {
      EXPECT_EQ(index(a.start_data()[user].user), user);
      EXPECT_EQ(numbers(a.start_data()[user].sample.features),
                numbers(b.start_data()[user].sample.features));
      EXPECT_EQ(a.start_data()[user].sample.reward, b.start_data()[user].sample.reward);
    }
  }
}

TEST(SyntheticWorld, UsersComeUniformly) {
  SyntheticWorld world(small(), 8);
  std::vector<int> counts(12);
  for (int t = 0; t < 12'000; ++t) {
    ++counts[index(world.next_round().arms[0].user)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1000, 4 * 31);
  }
}

// The best linear function of x (with a constant) explains a linear reward and no other.
TEST(SyntheticWorld, OnlyTheLinearRewardIsLinear) {
  for (const RewardShape shape : kShapes) {
    SyntheticOptions options = small();
    options.reward = shape;
    options.clusters = 1;
    options.features = 2;
    options.gap = 0.0;
    options.items = 0;
    SyntheticWorld world(options, 3);
    // On a circle a linear function satisfies h(x) + h(-x) = 2 h(0), the same for all x: compare
    // the means over opposite halves with those of the halves turned by a right angle.
    double quarter[4] = {};
    double count[4] = {};
    for (int t = 0; t < 5000; ++t) {
      const Round& round = world.next_round();
      for (const Arm& arm : round.arms) {
        const float x = arm.features.values[0];
        const float y = arm.features.values[1];
        // Eighths of the circle, opposite ones together.
        const double angle = std::fmod(std::atan2(y, x) + 2 * M_PI, M_PI);
        const auto part = std::min<std::size_t>(3, static_cast<std::size_t>(angle / M_PI * 4));
        quarter[part] += world.expected_reward(arm.index);
        count[part] += 1.0;
      }
    }
    double lowest = 1.0;
    double highest = 0.0;
    for (std::size_t i = 0; i < 4; ++i) {
      lowest = std::min(lowest, quarter[i] / count[i]);
      highest = std::max(highest, quarter[i] / count[i]);
    }
    if (shape == RewardShape::kLinear) {
      EXPECT_LT(highest - lowest, 0.03);
    } else {
      EXPECT_GT(highest - lowest, 0.05) << static_cast<int>(shape);
    }
  }
}

TEST(SyntheticWorld, AConstantFeatureChangesNothingButWhatPoliciesSee) {
  for (const std::uint64_t items : {0, 30}) {
    SyntheticOptions options = small();
    options.items = items;
    options.topics = 2;
    SyntheticWorld plain(options, 7);
    options.constant_feature = true;
    SyntheticWorld world(options, 7);
    EXPECT_EQ(world.inputs(), plain.inputs() + 1);
    const auto expect_like = [](const Features& seen, const Features& before) {
      ASSERT_EQ(seen.values.size(), before.values.size() + 1);
      for (std::size_t i = 0; i < before.values.size(); ++i) {
        EXPECT_EQ(seen.values[i], before.values[i] * std::sqrt(0.5F));
      }
      EXPECT_EQ(seen.values.back(), std::sqrt(0.5F));
    };
    for (std::size_t i = 0; i < plain.start_data().size(); ++i) {
      expect_like(world.start_data()[i].sample.features, plain.start_data()[i].sample.features);
      EXPECT_EQ(world.start_data()[i].sample.reward, plain.start_data()[i].sample.reward);
    }
    for (int t = 0; t < 50; ++t) {
      const Round& before = plain.next_round();
      const Round& round = world.next_round();
      for (std::size_t i = 0; i < round.arms.size(); ++i) {
        EXPECT_EQ(round.arms[i].user, before.arms[i].user);
        EXPECT_EQ(round.arms[i].item, before.arms[i].item);
        expect_like(round.arms[i].features, before.arms[i].features);
        EXPECT_EQ(world.reward(arm_at(i)), plain.reward(arm_at(i)));
      }
    }
  }
}

TEST(SyntheticWorld, LinearModelsWithoutAnInterceptNeedTheConstantFeature) {
  for (const bool constant : {false, true}) {
    SyntheticOptions options = small();
    options.reward = RewardShape::kLinear;
    options.clusters = 1;
    options.items = 0;
    options.constant_feature = constant;
    SyntheticWorld world(options, 3);
    RidgeState model(world.inputs(), 1e-9);
    double largest_error = 0.0;
    for (int t = 0; t < 200; ++t) {
      for (const Arm& arm : world.next_round().arms) {
        const double expected = world.expected_reward(arm.index);
        if (t >= 100) {
          const double error = model.predict(arm.features.values).estimate - expected;
          largest_error = std::max(largest_error, std::abs(error));
        }
        model.add(arm.features.values, expected);
      }
    }
    EXPECT_EQ(largest_error < 1e-6, constant) << largest_error;
  }
}

TEST(SyntheticWorld, RefusesOptionsWithNameRangeAndValue) {
  const auto expect = [](auto change, const std::vector<std::string>& parts) {
    SyntheticOptions options = small();
    change(options);
    const std::string text = complaint(options);
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  };
  expect([](SyntheticOptions& o) { o.users = 0; }, {"users", "[1, ", "\"0\""});
  expect([](SyntheticOptions& o) { o.clusters = 13; }, {"clusters", "users (12)", "\"13\""});
  expect([](SyntheticOptions& o) { o.items = 3; }, {"items", "arms (4)", "\"3\""});
  expect([](SyntheticOptions& o) { o.arms = 10'001; }, {"arms", "10000]", "\"10001\""});
  expect([](SyntheticOptions& o) { o.gap = 1.0; }, {"gap", "[0, 1)", "\"1\""});
  expect([](SyntheticOptions& o) { o.gap = std::nan(""); }, {"gap", "[0, 1)", "nan"});
  expect([](SyntheticOptions& o) { o.features = 1; }, {"features", "[2, ", "\"1\""});
  expect(
      [](SyntheticOptions& o) {
        o.items = 1'000'000'0;
        o.features = 100'000;
      },
      {"items", "at most 10000", "\"10000000\""});
  // Three numbers in [0, 1] cannot be 0.6 apart.
  for (const std::uint64_t items : {0, 30}) {
    expect(
        [&](SyntheticOptions& o) {
          o.gap = 0.6;
          o.items = items;
        },
        {"gap", "3 clusters", "\"0.6\""});
  }
}

TEST(Environments, AreMadeByNameWithOptionsAsText) {
  const EnvironmentSpec spec{"synthetic", {{"users", "7"}, {"reward", "network"}}};
  EXPECT_EQ(make_environment(spec, 1)->user_count(), 7U);
  EXPECT_EQ(all_options(spec).at("users"), "7");
  EXPECT_EQ(all_options(spec).at("arms"), "10");
  EXPECT_THROW(make_environment({"nowhere", {}}, 1), Error);
  EXPECT_THROW(make_environment({"synthetic", {{"usres", "7"}}}, 1), Error);
  for (const EnvironmentHelp& help : environment_help()) {
    OptionValues values;
    for (const OptionHelp& option : help.options) {
      values[option.name] = option.standard;
    }
    EXPECT_EQ(all_options({help.name, {}}), values) << help.name;
  }
}

}  // namespace
}  // namespace mcnb::synthetic_test
