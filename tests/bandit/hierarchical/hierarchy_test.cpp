// The hierarchical model against the dense Gaussian of all its rewards.

#include "mcnb/bandit/hierarchical/hierarchy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/base/thread_pool.h"

namespace mcnb::hierarchy_test {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::size_t kUsers = 4;
constexpr std::size_t kUserFeatures = 2;

struct Reward {
  std::size_t learner;
  std::vector<float> arm;
  float reward;
};

struct World {
  const char* name;
  FeatureMap::Options features;
  double memory;
  std::size_t rewards;
};

std::vector<World> worlds() {
  const FeatureMap::Options plain{.inputs = 3};
  const FeatureMap::Options products{.inputs = 3, .shared_products = true, .own_products = true};
  const FeatureMap::Options shared_products{.inputs = 3, .shared_products = true};
  const FeatureMap::Options users{
      .inputs = 2, .shared_products = true, .own_products = true, .user_features = kUserFeatures};
  return {{"few rewards: dual form", products, 0.2, 20},
          {"many rewards: primal form", plain, 0.2, 80},
          {"no memory", plain, 0.0, 40},
          {"products in the shared features alone", shared_products, 0.1, 60},
          {"features of users", users, 0.3, 60}};
}

std::vector<float> user_numbers(std::size_t user) {
  Rng rng(7, Stream::kTest, user);
  return {static_cast<float>(rng.normal()), static_cast<float>(rng.normal())};
}

// Rewards of arms from a short list, so that some repeat.
std::vector<Reward> draw_rewards(const World& world) {
  Rng rng(3, Stream::kTest, world.rewards);
  std::vector<std::vector<float>> arms(12);
  for (std::vector<float>& arm : arms) {
    for (std::size_t i = 0; i < world.features.inputs; ++i) {
      arm.push_back(static_cast<float>(rng.normal()));
    }
  }
  std::vector<Reward> rewards;
  for (std::size_t i = 0; i < world.rewards; ++i) {
    rewards.push_back({static_cast<std::size_t>(rng.below(kUsers)), arms[rng.below(arms.size())],
                       static_cast<float>(rng.normal())});
  }
  return rewards;
}

HierarchyScales some_scales(const FeatureMap& map, double memory) {
  HierarchyScales scales{
      .shared = {2.0, 0.7, 0.4, 0.9}, .own = {0.5, 0.3, 0.2, 0.0}, .memory = memory};
  const auto size = static_cast<Index>(map.own_size());
  Rng rng(9, Stream::kTest);
  MatrixXd factor(size, size);
  for (double& value : factor.reshaped()) {
    value = 0.3 * rng.normal();
  }
  scales.correlation = MatrixXd::Identity(size, size) + factor * factor.transpose();
  return scales;
}

Hierarchy make(const World& world, ThreadPool& threads) {
  Hierarchy hierarchy{FeatureMap(world.features), threads};
  for (std::size_t user = 0; user < kUsers; ++user) {
    const std::vector<float> numbers = user_numbers(user);
    hierarchy.add_learner(std::span(numbers).first(world.features.user_features));
  }
  hierarchy.install(some_scales(hierarchy.map(), world.memory));
  return hierarchy;
}

// The covariance of two rewards' expectations in units of the noise's variance, by the model's
// definition.
class Covariance {
 public:
  Covariance(const Hierarchy& hierarchy, const HierarchyPrior& prior)
      : map_(hierarchy.map()), prior_(prior) {}

  double operator()(const Reward& a, const Reward& b) const {
    const VectorXd phi_a = features(a);
    const VectorXd phi_b = features(b);
    double sum = phi_a.dot(prior_.shared.cwiseProduct(phi_b));
    if (a.learner == b.learner) {
      const auto own = static_cast<Index>(map_.own_size());
      sum += phi_a.head(own).dot(prior_.own * phi_b.head(own));
      sum += a.arm == b.arm ? prior_.memory : 0.0;
    }
    return sum;
  }

 private:
  VectorXd features(const Reward& reward) const {
    VectorXd phi(static_cast<Index>(map_.shared_size()));
    const std::vector<float> numbers = user_numbers(reward.learner);
    map_.expand(reward.arm, numbers, phi.data());
    return phi;
  }

  const FeatureMap& map_;
  const HierarchyPrior& prior_;
};

struct Dense {
  MatrixXd covariance;  // of the rewards
  VectorXd rewards;
};

Dense dense_of(const Covariance& covariance, const std::vector<Reward>& rewards) {
  const auto size = static_cast<Index>(rewards.size());
  Dense dense{MatrixXd(size, size), VectorXd(size)};
  for (Index i = 0; i < size; ++i) {
    const Reward& a = rewards[static_cast<std::size_t>(i)];
    dense.rewards[i] = static_cast<double>(a.reward);
    for (Index j = 0; j < size; ++j) {
      dense.covariance(i, j) =
          covariance(a, rewards[static_cast<std::size_t>(j)]) + (i == j ? 1.0 : 0.0);
    }
  }
  return dense;
}

void expect_posterior_of(Hierarchy& hierarchy, const std::vector<Reward>& rewards,
                         const char* when) {
  const Covariance covariance(hierarchy, hierarchy.prior());
  const Dense dense = dense_of(covariance, rewards);
  const Eigen::LLT<MatrixXd> factor(dense.covariance);
  Rng rng(5, Stream::kTest);
  std::vector<Hierarchy::Prediction> said;
  for (std::size_t learner = 0; learner < kUsers; ++learner) {
    std::vector<float> fresh;
    for (std::size_t i = 0; i < hierarchy.map().inputs(); ++i) {
      fresh.push_back(static_cast<float>(rng.normal()));
    }
    for (const std::vector<float>& arm : {fresh, rewards.front().arm, rewards.back().arm}) {
      const Reward at{learner, arm, 0.0F};
      VectorXd with(dense.rewards.size());
      for (Index i = 0; i < with.size(); ++i) {
        with[i] = covariance(at, rewards[static_cast<std::size_t>(i)]);
      }
      const std::span<const float> span(arm);
      const std::vector<float> numbers = user_numbers(learner);
      hierarchy.predict(learner, numbers, {&span, 1}, said);
      EXPECT_NEAR(said[0].mean(), with.dot(factor.solve(dense.rewards)), 1e-8) << when;
      EXPECT_NEAR(said[0].variance, covariance(at, at) - with.dot(factor.solve(with)), 1e-8)
          << when;
    }
  }
}

TEST(Hierarchy, LearnsTheConditionalOfTheDenseGaussian) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    for (const Reward& reward : rewards) {
      hierarchy.learn(reward.learner, reward.arm, reward.reward);
    }
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
    for (const Reward& reward : rewards) {
      hierarchy.learn(reward.learner, reward.arm, reward.reward);
    }
    hierarchy.forget(1);
    std::erase_if(rewards, [](const Reward& reward) { return reward.learner == 1; });
    expect_posterior_of(hierarchy, rewards, "after forgetting");
    EXPECT_EQ(hierarchy.reward_count(), static_cast<double>(rewards.size()));
  }
}

TEST(Hierarchy, TheEvidenceIsThatOfTheDenseGaussian) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    for (const Reward& reward : rewards) {
      hierarchy.learn(reward.learner, reward.arm, reward.reward);
    }
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
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    for (const Reward& reward : rewards) {
      hierarchy.learn(reward.learner, reward.arm, reward.reward);
    }
    const double before = hierarchy.log_evidence(hierarchy.scales());
    hierarchy.fit();
    EXPECT_GT(hierarchy.log_evidence(hierarchy.scales()), before);
    expect_posterior_of(hierarchy, rewards, "after a fit");
  }
}

}  // namespace
}  // namespace mcnb::hierarchy_test
