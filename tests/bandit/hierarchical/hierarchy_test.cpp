// The hierarchical model against the dense Gaussian of all its rewards.

#include "mcnb/bandit/hierarchical/hierarchy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
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
  double weight = 1.0;  // after fading
};

struct World {
  const char* name;
  FeatureMap::Options features;
  double memory;
  std::size_t rewards;
};

FeatureMap::Options body_alone(std::size_t units) {
  return {.inputs = 5, .linear = false, .body = std::make_shared<const FeatureBody>(5, units, 4)};
}

FeatureMap::Options body_beside_numbers() {
  return {.inputs = 3,
          .user_features = kUserFeatures,
          .body = std::make_shared<const FeatureBody>(3, 4, 4)};
}

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
          {"features of users", users, 0.3, 60},
          {"a hidden layer, dual form", body_alone(9), 0.0, 24},
          {"a hidden layer beside the numbers", body_beside_numbers(), 0.2, 60}};
}

bool has_body(const World& world) { return world.features.body != nullptr; }

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

Hierarchy make(const World& world, ThreadPool& threads, std::size_t history_limit = 0) {
  Hierarchy hierarchy{FeatureMap(world.features), threads, history_limit, {.steps = 15}};
  for (std::size_t user = 0; user < kUsers; ++user) {
    const std::vector<float> numbers = user_numbers(user);
    hierarchy.add_learner(std::span(numbers).first(world.features.user_features));
  }
  hierarchy.install(some_scales(hierarchy.map(), world.memory));
  return hierarchy;
}

void learn_all(Hierarchy& hierarchy, const std::vector<Reward>& rewards, std::size_t from = 0,
               std::size_t to = ~std::size_t{0}) {
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

Dense dense_of(const Covariance& covariance, const std::vector<Reward>& rewards) {
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
void expect_posterior_of(Hierarchy& hierarchy, const std::vector<Reward>& rewards, const char* when,
                         std::vector<float> seen = {}) {
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

std::string saved(const Hierarchy& hierarchy) {
  std::ostringstream out;
  StateWriter writer(out, "a test", {.kind = "test", .version = 1});
  hierarchy.save(writer);
  writer.finish();
  return out.str();
}

void load(Hierarchy& hierarchy, const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "a test", {.kind = "test", .version = 1});
  hierarchy.load(reader);
  reader.finish();
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

TEST(Hierarchy, AFitBesideTheRoundsEndsWhereAFitInPlaceDoes) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy beside = make(world, threads);
    Hierarchy in_place = make(world, threads);
    std::vector<Reward> rewards = draw_rewards(world);
    const std::size_t half = rewards.size() / 2;
    learn_all(beside, rewards, 0, half);
    learn_all(in_place, rewards, 0, half);
    const FitOptions options{.fading = 0.5};
    in_place.fit(options);
    learn_all(in_place, rewards, half);
    const std::shared_ptr<HierarchyFit> fit = beside.begin_fit(options);
    learn_all(beside, rewards, half, half + 4);
    fit->run();
    learn_all(beside, rewards, half + 4, half + 5);
    beside.finish_fit(fit->result());
    EXPECT_TRUE(beside.is_catching_up());
    learn_all(beside, rewards, half + 5);
    EXPECT_FALSE(beside.is_catching_up());
    EXPECT_EQ(beside.scales(), in_place.scales());
    for (std::size_t i = 0; i < half; ++i) {
      rewards[i].weight = std::exp2(-0.5);
    }
    expect_posterior_of(beside, rewards, "beside");
    EXPECT_NEAR(beside.shared_mean().norm(), in_place.shared_mean().norm(), 1e-9);
  }
}

TEST(Hierarchy, AFitReadsTheHistoriesAsTheyWereWhileRewardsGoOn) {
  ThreadPool threads(1);
  World world = worlds()[1];
  world.rewards = 4000;
  Hierarchy quiet = make(world, threads);
  Hierarchy busy = make(world, threads);
  const std::vector<Reward> rewards = draw_rewards(world);
  learn_all(quiet, rewards, 0, 1000);
  learn_all(busy, rewards, 0, 1000);
  const std::shared_ptr<HierarchyFit> expected = quiet.begin_fit({});
  expected->run();
  const std::shared_ptr<HierarchyFit> fit = busy.begin_fit({});
  std::thread other([&] { fit->run(); });
  learn_all(busy, rewards, 1000);
  other.join();
  EXPECT_EQ(fit->result(), expected->result());
}

// Plays a fit in slices, saving and loading at one step, and returns the last state.
std::string play_fit(const World& world, std::size_t reload_at, bool run_again) {
  ThreadPool threads(1);
  auto hierarchy = std::make_unique<Hierarchy>(make(world, threads));
  const std::vector<Reward> rewards = draw_rewards(world);
  const std::size_t half = rewards.size() / 2;
  std::string result;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (i == reload_at) {
      const std::string bytes = saved(*hierarchy);
      hierarchy = std::make_unique<Hierarchy>(make(world, threads));
      load(*hierarchy, bytes);
      EXPECT_EQ(saved(*hierarchy), bytes);
    }
    learn_all(*hierarchy, rewards, i, i + 1);
    if (i == half) {
      hierarchy->begin_fit({.fading = 0.25})->run();
      result = hierarchy->fit_in_progress()->result();
    } else if (i == half + 5) {
      if (run_again) {
        hierarchy->fit_in_progress()->run();
        EXPECT_EQ(hierarchy->fit_in_progress()->result(), result);
      }
      hierarchy->finish_fit(result);
    }
  }
  return saved(*hierarchy);
}

TEST(Hierarchy, ASavedFitContinuesBitForBit) {
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    const std::string expected = play_fit(world, world.rewards, false);
    for (std::size_t at = world.rewards / 2 - 1; at < world.rewards; ++at) {
      ASSERT_EQ(play_fit(world, at, at % 2 == 0), expected) << "saved before reward " << at;
    }
  }
}

// A service replays its log without the predictions between the rewards.
TEST(Hierarchy, PredictionsLeaveNoTraceInTheSavedState) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy quiet = make(world, threads);
    Hierarchy asked = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    const auto ask = [&] {
      std::vector<Hierarchy::Prediction> said;
      const std::span<const float> arm(rewards.front().arm);
      for (std::size_t learner = 0; learner < kUsers; ++learner) {
        asked.predict(learner, user_numbers(learner), {&arm, 1}, said);
      }
      EXPECT_EQ(saved(asked), saved(quiet));
    };
    const std::size_t half = rewards.size() / 2;
    for (Hierarchy* each : {&quiet, &asked}) {
      learn_all(*each, rewards, 0, half);
      each->fit({.fading = 0.5});
    }
    ask();
    for (Hierarchy* each : {&quiet, &asked}) {
      each->fit({.fading = 0.25});  // nothing was learned since the last one
    }
    ask();
    for (std::size_t i = half; i < rewards.size(); ++i) {
      learn_all(quiet, rewards, i, i + 1);
      learn_all(asked, rewards, i, i + 1);
      ask();
    }
  }
}

TEST(Hierarchy, AnEmptyResultEndsAFitWithoutEffect) {
  ThreadPool threads(1);
  Hierarchy without = make(worlds().front(), threads);
  Hierarchy with = make(worlds().front(), threads);
  const std::vector<Reward> rewards = draw_rewards(worlds().front());
  learn_all(without, rewards);
  learn_all(with, rewards, 0, 10);
  with.begin_fit({});
  learn_all(with, rewards, 10, 15);
  with.finish_fit("");
  EXPECT_EQ(with.fit_in_progress(), nullptr);
  learn_all(with, rewards, 15);
  EXPECT_EQ(saved(with), saved(without));
}

void expect_that_forgetting_ends_a_fit(bool catching_up) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const HierarchyScales before = hierarchy.scales();
    std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards, 0, 12);
    const std::shared_ptr<HierarchyFit> fit = hierarchy.begin_fit({});
    learn_all(hierarchy, rewards, 12, 16);
    if (catching_up) {
      fit->run();
      hierarchy.finish_fit(fit->result());
      EXPECT_TRUE(hierarchy.is_catching_up());
    }
    hierarchy.forget(0);
    EXPECT_EQ(hierarchy.fit_in_progress(), nullptr);
    EXPECT_FALSE(hierarchy.is_catching_up());
    EXPECT_EQ(hierarchy.scales(), before);
    if (!catching_up) {
      fit->run();
      EXPECT_EQ(fit->result(), "");
    }
    learn_all(hierarchy, rewards, 16);
    for (std::size_t i = 0; i < 16; ++i) {
      rewards[i].weight = rewards[i].learner == 0 ? 0.0 : 1.0;
    }
    std::erase_if(rewards, [](const Reward& reward) { return reward.weight == 0.0; });
    expect_posterior_of(hierarchy, rewards, "after forgetting");
  }
}

TEST(Hierarchy, ForgettingEndsAFit) { expect_that_forgetting_ends_a_fit(false); }

TEST(Hierarchy, ForgettingDropsAFitThatIsStillCatchingUp) {
  expect_that_forgetting_ends_a_fit(true);
}

TEST(Hierarchy, AFitToASampleOfUsersStillInstallsAllRewards) {
  ThreadPool threads(1);
  for (const World& world : worlds()) {
    SCOPED_TRACE(world.name);
    Hierarchy hierarchy = make(world, threads);
    const std::vector<Reward> rewards = draw_rewards(world);
    learn_all(hierarchy, rewards);
    hierarchy.fit({.users = 2});
    expect_posterior_of(hierarchy, rewards, "after a fit to two users");
  }
}

}  // namespace
}  // namespace mcnb::hierarchy_test
