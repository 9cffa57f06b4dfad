// The choice of a half-life by fits: what is compared, what follows from it, and what is saved.

#include "tests/bandit/hierarchical/hierarchy_cases.h"

namespace mcnb::half_life_test {
namespace {

using namespace hierarchy_cases;

constexpr double kManyRewards = 1e6;  // enough for a comparison, however few there really are

Hierarchy make_fading(const World& world, ThreadPool& threads, const HalfLife& begin) {
  Hierarchy hierarchy{FeatureMap(world.features), threads, 0, {}, begin};
  for (std::size_t user = 0; user < kUsers; ++user) {
    const std::vector<float> numbers = user_numbers(user);
    hierarchy.add_learner(std::span(numbers).first(world.features.user_features));
  }
  hierarchy.install(some_scales(hierarchy.map(), world.memory));
  return hierarchy;
}

TEST(RewardHistory, WeighsRewardsBeforeAPeriodAndSince) {
  Rng rng(1, Stream::kTest);
  RewardHistory history;
  struct Seen {
    std::vector<float> arm;
    double value;
    double weight;
  };
  std::vector<Seen> all;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::vector<float> arm{static_cast<float>(rng.below(i < 30 ? 5 : 9)), 1.0F};
    const auto value = static_cast<float>(rng.normal());
    history.begin_period(i < 30 ? 1 : 2);
    history.add(history.find(arm), arm, value);
    all.push_back({arm, static_cast<double>(value), i < 30 ? 0.25 : 2.0});
  }
  const RewardHistory weighed = history.weighed(2, 0.25, 2.0);
  double count = 0.0;
  double squares = 0.0;
  for (const Seen& seen : all) {
    count += seen.weight;
    squares += seen.weight * seen.value * seen.value;
  }
  EXPECT_NEAR(weighed.reward_count(), count, 1e-12);
  EXPECT_NEAR(weighed.squared_rewards(), squares, 1e-12);
  ASSERT_EQ(weighed.arm_count(), history.arm_count());
  for (std::size_t j = 0; j < weighed.arm_count(); ++j) {
    ArmRewards expected;
    for (const Seen& seen : all) {
      if (std::ranges::equal(seen.arm, weighed.arm(j))) {
        expected.count += seen.weight;
        expected.sum += seen.weight * seen.value;
      }
    }
    EXPECT_NEAR(weighed.rewards()[j].count, expected.count, 1e-12);
    EXPECT_NEAR(weighed.rewards()[j].sum, expected.sum, 1e-12);
  }
  EXPECT_EQ(history.weighed(2, 1.0, 0.0).arm_count(), 5U) << "arms without weight are dropped";
  EXPECT_EQ(history.weighed(3, 0.5, 0.0).reward_count(), 30.0) << "nothing came in period 3";
}

// How likely the rewards since `half` are, given the others with another weight: by the dense
// Gaussian.
double dense_log_predictive(const Hierarchy& hierarchy, std::vector<Reward> rewards,
                            std::size_t half, double weight) {
  const Covariance covariance(hierarchy, hierarchy.prior());
  for (std::size_t i = 0; i < half; ++i) {
    rewards[i].weight = weight;
  }
  const auto part = [&](const std::vector<Reward>& some) {
    const Dense dense = dense_of(covariance, some);
    const Eigen::LLT<MatrixXd> factor(dense.covariance);
    return std::pair(dense.rewards.dot(factor.solve(dense.rewards)),
                     2.0 * factor.matrixLLT().diagonal().array().log().sum());
  };
  const auto all = part(rewards);
  const auto before = part({rewards.begin(), rewards.begin() + static_cast<std::ptrdiff_t>(half)});
  const double count = static_cast<double>(rewards.size() - half) + 2.0;
  const double noise = (all.first - before.first + 0.2) / count;
  return -0.5 * count * std::log(noise) - 0.5 * (all.second - before.second);
}

TEST(HalfLife, ComparesHowLikelyRewardsAreByTheDenseGaussian) {
  ThreadPool threads(1);
  bool any_difference = false;
  for (const World& world : worlds()) {
    if (has_body(world)) {
      continue;  // their half-life is not chosen
    }
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make_fading(world, threads, {.rewards = 1e9});
    const std::vector<Reward> rewards = draw_rewards(world);
    const std::size_t half = rewards.size() / 2;
    learn_all(hierarchy, rewards, 0, half);
    hierarchy.fit();
    learn_all(hierarchy, rewards, half);
    hierarchy.fit({.rewards = kManyRewards});
    const auto compared = [&](double weight) {
      return std::max(0.0, dense_log_predictive(hierarchy, rewards, half, weight) -
                               dense_log_predictive(hierarchy, rewards, half, 1.0));
    };
    const HalfLife& found = *hierarchy.half_life();
    EXPECT_EQ(found.rewards, 1e9);
    EXPECT_NEAR(found.for_shorter, compared(0.5), 1e-7);
    EXPECT_NEAR(found.for_longer, compared(2.0), 1e-7);
    any_difference = any_difference || found.for_shorter + found.for_longer > 0.01;
  }
  EXPECT_TRUE(any_difference);
}

// The largest half-life that fits find where a taste turns by an angle with every reward.
double play(double angle, ThreadPool& threads) {
  Hierarchy hierarchy{FeatureMap({.inputs = 3}), threads, 0, {}, HalfLife{}};
  hierarchy.add_learner({});
  Rng rng(4, Stream::kTest);
  double largest = 0.0;
  for (std::size_t i = 1; i <= 2000; ++i) {
    std::vector<float> arm(3);
    for (float& value : arm) {
      value = static_cast<float>(rng.normal());
    }
    const double turned = angle * static_cast<double>(i);
    const double reward = std::cos(turned) * static_cast<double>(arm[0]) +
                          std::sin(turned) * static_cast<double>(arm[1]) + 0.3 * rng.normal();
    hierarchy.learn(0, arm, static_cast<float>(reward));
    if (i % 200 == 0) {
      hierarchy.fit({.rewards = static_cast<double>(i)});
      largest = std::max(largest, hierarchy.half_life()->rewards);
    }
  }
  return largest;
}

TEST(HalfLife, RewardsFadeWhereTastesTurnAndNotWhereTheyStay) {
  ThreadPool threads(1);
  EXPECT_EQ(play(0.0, threads), 0.0);
  EXPECT_GT(play(0.002, threads), 0.0);
}

TEST(HalfLife, AShorterOneFadesAllRewardsSoFar) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    if (has_body(world)) {
      continue;
    }
    SCOPED_TRACE(world.name);
    const HalfLife begin{.rewards = 4000.0, .for_shorter = 1e3};
    Hierarchy hierarchy = make_fading(world, threads, begin);
    std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    hierarchy.fit({.fading = 0.2, .rewards = kManyRewards});
    EXPECT_EQ(hierarchy.half_life()->rewards, 2000.0);
    for (Reward& reward : rewards) {
      reward.weight = std::exp2(-1.2);
    }
    expect_posterior_of(hierarchy, rewards, "after a fit that shortened the half-life");
  }
}

// Plays with a fit beside the rewards, which shortens the half-life, and saves at one step.
std::string play_fit(const World& world, std::size_t reload_at, bool run_again,
                     std::size_t thread_count) {
  ThreadPool threads(thread_count);
  const HalfLife begin{.rewards = 4000.0, .for_shorter = 1e3};
  auto hierarchy = std::make_unique<Hierarchy>(make_fading(world, threads, begin));
  const std::vector<Reward> rewards = draw_rewards(world);
  const std::size_t half = rewards.size() / 2;
  std::string result;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (i == reload_at) {
      const std::string bytes = saved(*hierarchy);
      hierarchy = std::make_unique<Hierarchy>(make_fading(world, threads, begin));
      load(*hierarchy, bytes);
      EXPECT_EQ(saved(*hierarchy), bytes);
    }
    learn_all(*hierarchy, rewards, i, i + 1);
    if (i == half) {
      const FitOptions options{.fading = 0.1, .rewards = kManyRewards};
      hierarchy->begin_fit(options)->run(threads);
      result = hierarchy->fit_in_progress()->result();
    } else if (i == half + 5) {
      if (run_again) {
        hierarchy->fit_in_progress()->run(threads);
        EXPECT_EQ(hierarchy->fit_in_progress()->result(), result);
      }
      hierarchy->finish_fit(result);
      EXPECT_EQ(hierarchy->half_life()->rewards, 2000.0);
    }
  }
  return saved(*hierarchy);
}

TEST(HalfLife, ASavedFitContinuesBitForBitOnAnyNumberOfThreads) {
  for (const World& world : worlds()) {
    if (has_body(world)) {
      continue;
    }
    SCOPED_TRACE(world.name);
    const std::string expected = play_fit(world, world.rewards, false, 1);
    EXPECT_EQ(play_fit(world, world.rewards, true, 2), expected);
    EXPECT_EQ(play_fit(world, world.rewards, false, 8), expected);
    for (std::size_t at = world.rewards / 2 - 1; at < world.rewards; ++at) {
      ASSERT_EQ(play_fit(world, at, at % 2 == 0, 1), expected) << "saved before reward " << at;
    }
  }
}

}  // namespace
}  // namespace mcnb::half_life_test
