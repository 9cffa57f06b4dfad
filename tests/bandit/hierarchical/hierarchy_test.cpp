// The hierarchical model against the dense Gaussian of all its rewards.

#include "tests/bandit/hierarchical/hierarchy_cases.h"

namespace mcnb::hierarchy_test {
namespace {

using namespace hierarchy_cases;

TEST(Hierarchy, LearnsTheConditionalOfTheDenseGaussian) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    expect_posterior_of(hierarchy, rewards, "online");
    hierarchy.install(hierarchy.scales());
    expect_posterior_of(hierarchy, rewards, "from all rewards at once");
  }
}

TEST(Hierarchy, ForgettingALearnerIsAsIfItHadNeverBeenThere) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    hierarchy.forget(1);
    std::erase_if(rewards, [](const Reward& reward) { return reward.learner == 1; });
    expect_posterior_of(hierarchy, rewards, "after forgetting");
    EXPECT_EQ(hierarchy.reward_count(), static_cast<double>(rewards.size()));
  }
}

// With long arms the precision of the shared coefficients is so large that taking off what one
// learner added would leave nothing but rounding.
TEST(Hierarchy, ForgettingIsExactForLongArmsToo) {
  ThreadPool threads(1);
  const World world{"long arms", {.inputs = 8, .shared_products = true}, 0.1, 0};
  Hierarchy hierarchy = make(world, threads);
  Hierarchy without = make(world, threads);
  Rng rng(11, Stream::kTest);
  for (std::size_t i = 0; i < 300; ++i) {
    std::vector<float> arm(8);
    for (float& value : arm) {
      value = 30.0F * static_cast<float>(rng.normal());
    }
    const std::size_t learner = i % 20 == 0 ? 0 : 1;
    const auto reward = static_cast<float>(rng.normal());
    hierarchy.learn(learner, arm, reward);
    if (learner == 0) {
      without.learn(learner, arm, reward);
    }
  }
  hierarchy.forget(1);
  const Eigen::VectorXd& expected = without.shared_mean();
  EXPECT_LT((hierarchy.shared_mean() - expected).norm(), 1e-6 * expected.norm());
}

TEST(Hierarchy, TheEvidenceIsThatOfTheDenseGaussian) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    const Dense dense = dense_of(Covariance(hierarchy, hierarchy.prior()), rewards);
    const Eigen::LLT<MatrixXd> factor(dense.covariance);
    const double count = static_cast<double>(rewards.size()) + 2.0;
    const double noise = (dense.rewards.dot(factor.solve(dense.rewards)) + 0.2) / count;
    const double log_determinant = 2.0 * factor.matrixLLT().diagonal().array().log().sum();
    EXPECT_NEAR(hierarchy.log_evidence(hierarchy.scales()),
                -0.5 * count * std::log(noise) - 0.5 * log_determinant, 1e-7);
    hierarchy.install(hierarchy.scales());
    EXPECT_NEAR(hierarchy.prior().noise, noise, 1e-9);
  }
}

TEST(Hierarchy, AFitMakesTheRewardsMoreLikely) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    if (has_body(world)) {
      continue;  // a fit trains it on another loss
    }
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    const double before = hierarchy.log_evidence(hierarchy.scales());
    hierarchy.fit();
    EXPECT_GT(hierarchy.log_evidence(hierarchy.scales()), before);
    expect_posterior_of(hierarchy, rewards, "after a fit");
  }
}

TEST(Hierarchy, FoldedArmsStillCount) {
  ThreadPool threads(1);
  for (World world : worlds()) {
    if (has_body(world)) {
      continue;  // nothing is folded
    }
    SCOPED_TRACE(world.name);
    world.rewards = 200;
    Hierarchy hierarchy = make(world, threads, 3);
    std::vector<Reward> rewards = draw_rewards(world);
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      rewards[i].arm[0] += static_cast<float>(i);  // no arm comes twice
      rewards[i].arm[0] *= 0.01F;
    }
    learn_all(hierarchy, rewards);
    ASSERT_NE(hierarchy.history(0).folded(), nullptr);
    // The first arms are no longer remembered, the last ones are.
    expect_posterior_of(hierarchy, rewards, "online", rewards.back().arm);
    hierarchy.install(hierarchy.scales());
    expect_posterior_of(hierarchy, rewards, "from all rewards at once", rewards.back().arm);
    hierarchy.forget(2);
    std::erase_if(rewards, [](const Reward& reward) { return reward.learner == 2; });
    expect_posterior_of(hierarchy, rewards, "after forgetting", rewards.back().arm);
  }
}

TEST(Hierarchy, FadedRewardsCountLess) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    std::vector<Reward> rewards = draw_rewards(world);
    const std::size_t half = rewards.size() / 2;
    learn_all(hierarchy, rewards, 0, half);
    hierarchy.fit({.fading = 1.0});
    learn_all(hierarchy, rewards, half);
    for (std::size_t i = 0; i < half; ++i) {
      rewards[i].weight = 0.5;
    }
    expect_posterior_of(hierarchy, rewards, "faded once");
    hierarchy.fit({.fading = 2.0});
    for (Reward& reward : rewards) {
      reward.weight *= 0.25;
    }
    expect_posterior_of(hierarchy, rewards, "faded twice");
    hierarchy.fit({.fading = 12.0});
    std::vector<Hierarchy::Prediction> said;
    const std::span<const float> arm(rewards.front().arm);
    hierarchy.predict(0, user_numbers(0), {&arm, 1}, said);
    EXPECT_EQ(hierarchy.history(0).arm_count(), 0U) << "negligible rewards are dropped";
  }
}

}  // namespace
}  // namespace mcnb::hierarchy_test
