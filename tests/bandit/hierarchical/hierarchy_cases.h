#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "mcnb/bandit/hierarchical/hierarchy.h"
#include "mcnb/base/random.h"
#include "mcnb/base/thread_pool.h"

// Small worlds for the hierarchical model, and the dense Gaussian of all their rewards.
namespace mcnb::hierarchy_cases {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::size_t kUsers = 4;
constexpr std::size_t kUserFeatures = 2;

struct Reward {
  std::size_t learner;
  std::vector<float> arm;
  float reward;
  double weight = 1.0;  // after fading
};

struct World {
  const char* name;
  FeatureMap::Options features;
  double memory;
  std::size_t rewards;
};

inline FeatureMap::Options body_alone(std::size_t units) {
  return {.inputs = 5, .linear = false, .body = std::make_shared<const FeatureBody>(5, units, 4)};
}

inline FeatureMap::Options body_beside_numbers() {
  return {.inputs = 3,
          .user_features = kUserFeatures,
          .body = std::make_shared<const FeatureBody>(3, 4, 4)};
}

inline std::vector<World> worlds() {
  const FeatureMap::Options plain{.inputs = 3};
  const FeatureMap::Options products{.inputs = 3, .shared_products = true, .own_products = true};
  const FeatureMap::Options shared_products{.inputs = 3, .shared_products = true};
  const FeatureMap::Options users{
      .inputs = 2, .shared_products = true, .own_products = true, .user_features = kUserFeatures};
  return {{"few rewards: dual form", products, 0.2, 20},
          {"many rewards: primal form", plain, 0.2, 80},
          {"no memory", plain, 0.0, 40},
          {"products in the shared features alone", shared_products, 0.1, 60},
          {"features of users", users, 0.3, 60},
          {"a hidden layer, dual form", body_alone(9), 0.0, 24},
          {"a hidden layer beside the numbers", body_beside_numbers(), 0.2, 60}};
}

inline bool has_body(const World& world) { return world.features.body != nullptr; }

inline std::vector<float> user_numbers(std::size_t user) {
  Rng rng(7, Stream::kTest, user);
  return {static_cast<float>(rng.normal()), static_cast<float>(rng.normal())};
}

// Rewards of arms from a short list, so that some repeat.
inline std::vector<Reward> draw_rewards(const World& world) {
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

inline HierarchyScales some_scales(const FeatureMap& map, double memory) {
  HierarchyScales scales{
      .shared = {2.0, 0.7, 0.4, 0.9, 0.6}, .own = {0.5, 0.3, 0.2, 0.0, 0.4}, .memory = memory};
  const auto size = static_cast<Index>(map.own_size());
  Rng rng(9, Stream::kTest);
  MatrixXd factor(size, size);
  for (double& value : factor.reshaped()) {
    value = 0.3 * rng.normal();
  }
  scales.correlation = MatrixXd::Identity(size, size) + factor * factor.transpose();
  return scales;
}

inline Hierarchy make(const World& world, ThreadPool& threads, std::size_t history_limit = 0) {
  Hierarchy hierarchy{FeatureMap(world.features), threads, history_limit, {.steps = 15}};
  for (std::size_t user = 0; user < kUsers; ++user) {
    const std::vector<float> numbers = user_numbers(user);
    hierarchy.add_learner(std::span(numbers).first(world.features.user_features));
  }
  hierarchy.install(some_scales(hierarchy.map(), world.memory));
  return hierarchy;
}

inline void learn_all(Hierarchy& hierarchy, const std::vector<Reward>& rewards,
                      std::size_t from = 0, std::size_t to = ~std::size_t{0}) {
  for (std::size_t i = from; i < std::min(to, rewards.size()); ++i) {
    hierarchy.learn(rewards[i].learner, rewards[i].arm, rewards[i].reward);
  }
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

inline Dense dense_of(const Covariance& covariance, const std::vector<Reward>& rewards) {
  const auto size = static_cast<Index>(rewards.size());
  Dense dense{MatrixXd(size, size), VectorXd(size)};
  for (Index i = 0; i < size; ++i) {
    const Reward& a = rewards[static_cast<std::size_t>(i)];
    dense.rewards[i] = static_cast<double>(a.reward);
    for (Index j = 0; j < size; ++j) {
      dense.covariance(i, j) =
          covariance(a, rewards[static_cast<std::size_t>(j)]) + (i == j ? 1.0 / a.weight : 0.0);
    }
  }
  return dense;
}

// Compares predictions with the dense Gaussian: of a new arm, and of two arms with rewards or of
// `seen`.
inline void expect_posterior_of(Hierarchy& hierarchy, const std::vector<Reward>& rewards,
                                const char* when, std::vector<float> seen = {}) {
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
    const std::vector<float> first = seen.empty() ? rewards.front().arm : seen;
    for (const std::vector<float>& arm : {fresh, first, rewards.back().arm}) {
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

inline std::string saved(const Hierarchy& hierarchy) {
  std::ostringstream out;
  StateWriter writer(out, "a test", {.kind = "test", .version = 1});
  hierarchy.save(writer);
  writer.finish();
  return out.str();
}

inline void load(Hierarchy& hierarchy, const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "a test", {.kind = "test", .version = 1});
  hierarchy.load(reader);
  reader.finish();
}

}  // namespace mcnb::hierarchy_cases
