// A trained hidden layer as features of the hierarchical policy.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/hierarchical/body_training.h"
#include "mcnb/bandit/hierarchical/hierarchy.h"
#include "mcnb/base/random.h"
#include "mcnb/base/thread_pool.h"
#include "tests/bandit/policy_cases.h"
#include "tests/expect_error.h"

namespace mcnb::trained_features_test {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXf;
using Eigen::VectorXd;
using Eigen::VectorXf;

constexpr std::size_t kInputs = 6;
constexpr std::size_t kUnits = 7;
constexpr std::size_t kLearners = 3;

std::vector<float> draw_arm(Rng& rng) {
  std::vector<float> arm(kInputs);
  for (float& value : arm) {
    value = static_cast<float>(rng.normal());
  }
  return arm;
}

FeatureMap some_map(bool linear) {
  return FeatureMap({.inputs = kInputs,
                     .linear = linear,
                     .body = std::make_shared<const FeatureBody>(kInputs, kUnits, 3)});
}

// Samples whose reward is not linear in the arm, and heads to start from.
struct Lesson {
  std::vector<std::vector<float>> arms;
  std::vector<BodySample> samples;
  std::vector<std::uint32_t> others;
  BodyHeads heads;
};

Lesson draw_lesson(const FeatureMap& map, std::size_t count) {
  Rng rng(2, Stream::kTest, count);
  Lesson lesson;
  for (std::size_t i = 0; i < count; ++i) {
    lesson.arms.push_back(draw_arm(rng));
  }
  for (const std::vector<float>& arm : lesson.arms) {
    lesson.samples.push_back({arm, static_cast<std::uint32_t>(rng.below(kLearners)),
                              static_cast<float>(0.5 + rng.uniform()), std::abs(arm[0])});
    lesson.others.push_back(static_cast<std::uint32_t>(rng.below(kLearners)));
  }
  const auto size = static_cast<Index>(map.own_size());
  lesson.heads = {VectorXf(size), MatrixXf(size, static_cast<Index>(kLearners))};
  for (float& value : lesson.heads.shared) {
    value = static_cast<float>(rng.normal());
  }
  for (float& value : lesson.heads.own.reshaped()) {
    value = static_cast<float>(rng.normal());
  }
  return lesson;
}

// The loss of body_loss, from its definition in plain double precision.
double plain_loss(const FeatureMap& map, std::span<const float> weights, const Lesson& lesson,
                  const MatrixXd& own, double pull) {
  double loss = 0.0;
  for (std::size_t i = 0; i < lesson.samples.size(); ++i) {
    const BodySample& sample = lesson.samples[i];
    VectorXd features(static_cast<Index>(map.own_size()));
    features[0] = 1.0;
    for (Index k = 1; k < features.size(); ++k) {
      const std::size_t unit = static_cast<std::size_t>(k) - (map.own_size() - kUnits);
      if (static_cast<std::size_t>(k) < map.own_size() - kUnits) {
        features[k] = static_cast<double>(sample.arm[static_cast<std::size_t>(k - 1)]);
        continue;
      }
      double sum = static_cast<double>(weights[kInputs * kUnits + unit]);
      for (std::size_t input = 0; input < kInputs; ++input) {
        sum += static_cast<double>(weights[input * kUnits + unit]) *
               static_cast<double>(sample.arm[input]);
      }
      features[k] = std::max(0.0, sum);
    }
    const VectorXd head = lesson.heads.shared.cast<double>() + own.col(sample.head);
    const double error = features.dot(head) - static_cast<double>(sample.target);
    const double pulled =
        features.dot(lesson.heads.shared.cast<double>() + own.col(lesson.others[i]));
    loss += 0.5 * static_cast<double>(sample.weight) * (error * error + pull * pulled * pulled);
  }
  return loss;
}

TEST(BodyTraining, TheGradientIsThatOfFiniteDifferences) {
  constexpr double kPull = 0.3;
  for (const bool linear : {false, true}) {
    const FeatureMap map = some_map(linear);
    const Lesson lesson = draw_lesson(map, 20);
    const BodyLoss loss = body_loss(map, lesson.samples, lesson.others, lesson.heads, kPull);
    const MatrixXd own = lesson.heads.own.cast<double>();
    const std::vector<float> weights(map.body()->weights().begin(), map.body()->weights().end());
    const double value = plain_loss(map, weights, lesson, own, kPull);
    EXPECT_NEAR(loss.value, value, 1e-4 * value);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      constexpr float kStep = 1e-3F;
      std::vector<float> more = weights;
      std::vector<float> less = weights;
      more[i] += kStep;
      less[i] -= kStep;
      const double rise =
          plain_loss(map, more, lesson, own, kPull) - plain_loss(map, less, lesson, own, kPull);
      const double slope = rise / (static_cast<double>(more[i]) - static_cast<double>(less[i]));
      EXPECT_NEAR(static_cast<double>(loss.weights[i]), slope, 1e-3 * (1.0 + std::abs(slope)))
          << "weight " << i;
    }
    for (Index i = 0; i < own.size(); ++i) {
      constexpr double kStep = 1e-4;
      MatrixXd more = own;
      MatrixXd less = own;
      more.data()[i] += kStep;
      less.data()[i] -= kStep;
      const double slope = (plain_loss(map, weights, lesson, more, kPull) -
                            plain_loss(map, weights, lesson, less, kPull)) /
                           (2.0 * kStep);
      EXPECT_NEAR(static_cast<double>(loss.own.data()[i]), slope, 1e-4 * (1.0 + std::abs(slope)))
          << "coefficient " << i;
    }
  }
}

TEST(BodyTraining, LowersTheLossAndRepeatsItself) {
  const std::atomic<bool> going = false;
  for (const bool linear : {false, true}) {
    const FeatureMap map = some_map(linear);
    Lesson lesson = draw_lesson(map, 40);
    lesson.heads.shared.setZero();
    // How well the best heads predict the rewards under a body.
    const auto rest = [&](const FeatureMap& with) {
      MatrixXd features(static_cast<Index>(with.own_size()), 40);
      VectorXd targets(40);
      for (Index i = 0; i < 40; ++i) {
        with.expand(lesson.arms[static_cast<std::size_t>(i)], {}, features.col(i).data());
        targets[i] = static_cast<double>(lesson.samples[static_cast<std::size_t>(i)].target);
      }
      const VectorXd head = features.transpose().colPivHouseholderQr().solve(targets);
      return (features.transpose() * head - targets).squaredNorm();
    };
    const BodyTraining training{.steps = 2000, .batch = 8, .rate = 0.01, .pull = 0.0};
    for (BodySample& sample : lesson.samples) {
      sample.head = 0;
    }
    const auto body = train_body(map, lesson.samples, lesson.heads, training, 1, going);
    EXPECT_LT(rest(map.with_body(body)), 0.5 * rest(map));
    EXPECT_TRUE(*train_body(map, lesson.samples, lesson.heads, training, 1, going) == *body);
    EXPECT_FALSE(*train_body(map, lesson.samples, lesson.heads, training, 2, going) == *body);
  }
}

TEST(BodyTraining, WithoutSamplesOrWhenCancelledTheBodyStays) {
  const FeatureMap map = some_map(false);
  const Lesson lesson = draw_lesson(map, 9);
  const std::atomic<bool> going = false;
  const std::atomic<bool> cancelled = true;
  EXPECT_TRUE(*train_body(map, {}, lesson.heads, {}, 1, going) == *map.body());
  EXPECT_TRUE(*train_body(map, lesson.samples, lesson.heads, {}, 1, cancelled) == *map.body());
}

TEST(BodyTraining, AnArmTooLongForItsNumbersLeavesTheBodyFinite) {
  const FeatureMap map = some_map(false);
  Lesson lesson = draw_lesson(map, 9);
  for (std::vector<float>& arm : lesson.arms) {
    std::ranges::fill(arm, 3e38F);
  }
  const std::atomic<bool> going = false;
  const auto body = train_body(map, lesson.samples, lesson.heads, {}, 1, going);
  EXPECT_TRUE(all_finite(body->weights()));
}

TEST(FeatureMap, ArmsWithTheSameNumbersShareTheirHiddenLayer) {
  Rng rng(5, Stream::kTest);
  const std::vector<float> first = draw_arm(rng);
  const std::vector<float> second = draw_arm(rng);
  for (const bool linear : {false, true}) {
    const FeatureMap map = some_map(linear);
    const FeatureMap other = map.with_body(std::make_shared<const FeatureBody>(kInputs, kUnits, 8));
    FeatureMap::LastHidden last;
    for (const FeatureMap* with : {&map, &other, &map}) {
      for (const std::vector<float>* arm : {&first, &first, &second, &first}) {
        std::vector<double> alone(map.shared_size());
        std::vector<double> shared(map.shared_size());
        with->expand(*arm, {}, alone.data());
        with->expand(*arm, {}, shared.data(), last);
        EXPECT_EQ(alone, shared);
      }
    }
  }
}

// The own covariance after a fit, from its definition: (D^-1 + pull / learners * sum phi phi^T)^-1.
TEST(TrainedFeatures, OwnPartsArePulledToZeroWhereRewardsHaveBeenSeen) {
  ThreadPool threads(1);
  Hierarchy hierarchy(some_map(false), threads, 0, {.steps = 20, .pull = 0.4});
  HierarchyScales scales = hierarchy.scales();
  scales.memory = 0.0;
  hierarchy.install(scales);
  Rng rng(6, Stream::kTest);
  std::vector<std::vector<float>> arms;
  for (std::size_t i = 0; i < kLearners + 1; ++i) {
    hierarchy.add_learner({});  // the last one stays without rewards
  }
  for (std::size_t i = 0; i < 50; ++i) {
    arms.push_back(draw_arm(rng));
    hierarchy.learn(i % kLearners, arms.back(), std::abs(arms.back()[0]));
  }
  hierarchy.fit();
  const auto own = static_cast<Index>(hierarchy.map().own_size());
  MatrixXd precision = MatrixXd::Zero(own, own);
  for (const std::vector<float>& arm : arms) {
    VectorXd features(own);
    hierarchy.map().expand(arm, {}, features.data());
    precision += 0.4 / kLearners * features * features.transpose();
  }
  for (Index i = 0; i < own; ++i) {
    const FeatureGroup group = hierarchy.map().groups()[static_cast<std::size_t>(i)];
    precision(i, i) += 1.0 / scales.own[static_cast<std::size_t>(group)];
  }
  EXPECT_LT((hierarchy.prior().own * precision - MatrixXd::Identity(own, own)).norm(), 1e-8);
  EXPECT_EQ(hierarchy.scales().own, scales.own) << "no scale of these features is fitted";
}

std::unique_ptr<Policy> make(const std::string& text, std::uint32_t features, ThreadPool& threads) {
  return make_policy(parse_policy(text), cases::setup_of({.features = features}, threads));
}

TEST(TrainedFeatures, AreTakenForLongArms) {
  ThreadPool threads(1);
  const auto run = [&](const std::string& text, std::uint32_t features) {
    const cases::World world{.features = features};
    const auto policy = make(text, features, threads);
    cases::Session session(world, cases::Arrival::kAtOnce);
    session.play(*policy, 0, 40);
    return session.values();
  };
  const std::string small = "hierarchical:body_units=8:body_steps=10";
  EXPECT_EQ(run(small, 65), run(small + ":features=trained:alpha=0.5:memory=no", 65));
  EXPECT_NE(run(small, 65), run(small + ":alpha=1", 65));
  EXPECT_EQ(run(small, 64), run("hierarchical:features=raw:alpha=0.5:memory=yes", 64));
  EXPECT_NE(run(small, 64), run(small + ":features=trained", 64));
  EXPECT_EQ(run(small, 24), run(small + ":alpha=0.3", 24));
  EXPECT_NE(run(small, 24), run(small + ":alpha=0.5", 24));
  expect_error(ErrorKind::kUsage,
               "option features: must be trained (or auto) because arms have 65 numbers, "
               "more than 64",
               [&] { make("hierarchical:features=raw", 65, threads); });
}

TEST(TrainedFeatures, AreTakenForArmsThatAreBlocks) {
  ThreadPool threads(1);
  const cases::World world{.features = 3, .blocks = true};
  const auto run = [&](const std::string& text) {
    const auto policy = make_policy(parse_policy(text), cases::setup_of(world, threads));
    cases::Session session(world, cases::Arrival::kAtOnce);
    session.play(*policy, 0, 40);
    return session.values();
  };
  const std::string small = "hierarchical:body_units=8:body_steps=10";
  EXPECT_EQ(run(small), run(small + ":features=trained"));
  EXPECT_NE(run(small), run("hierarchical:features=products"));
}

TEST(TrainedFeatures, LearnWhatNoLinearModelCan) {
  ThreadPool threads(1);
  const cases::World world{.features = 5, .users = 2};
  const auto regret = [&](const std::string& text) {
    const auto policy = make(text, world.features, threads);
    double sum = 0.0;
    for (std::uint64_t id = 0; id < 1500; ++id) {
      const cases::OwnRound own = cases::draw_round(world, id);
      const ArmIndex choice = policy->choose(own.round);
      policy->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
      sum += id < 750 ? 0.0
                      : static_cast<double>(*std::ranges::max_element(own.rewards) -
                                            own.rewards[index(choice)]);
    }
    return sum;
  };
  EXPECT_LT(regret("hierarchical:features=trained:body_units=30:body_steps=100"),
            0.7 * regret("hierarchical:features=raw:memory=no"));
}

// The service's way: the training runs on another thread, and its result is kept as bytes.
TEST(TrainedFeatures, ATrainingBesideTheRoundsEndsLikeOneInPlace) {
  const cases::World world{.features = 70};
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of(world, threads);
  setup.fits_beside = true;
  const PolicySpec spec = parse_policy("hierarchical:body_units=9:body_steps=15:first_fit=20");
  const auto play = [&](bool replay, std::vector<std::string>& results) {
    const auto policy = make_policy(spec, setup);
    cases::Session session(world, cases::Arrival::kLate);
    std::size_t fits = 0;
    for (std::uint64_t id = 0; id < 120; ++id) {
      session.play(*policy, id, id + 1);
      if (policy->fit_is_due()) {
        policy->begin_fit();
      } else if (policy->fit_in_progress()) {
        if (!replay) {
          const auto fit = policy->begin_fit();
          fit->run();
          results.push_back(fit->result());
        }
        policy->finish_fit(results.at(fits));
        ++fits;
      }
    }
    EXPECT_GT(fits, 3U);
    return cases::saved(*policy);
  };
  std::vector<std::string> results;
  const std::string expected = play(false, results);
  EXPECT_TRUE(play(true, results) == expected) << "replayed from the results";
}

}  // namespace
}  // namespace mcnb::trained_features_test
