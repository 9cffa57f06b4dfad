// What people are shown of learners, against plain computations.

#include "mcnb/bandit/opinions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/numeric/kernels.h"
#include "tests/bandit/mcnb_cases.h"

namespace mcnb::opinions_test {
namespace {

using cases::Arrival;
using cases::lively;
using cases::OwnRound;
using cases::Session;
using cases::with;
using cases::World;

const World kWorld{.features = 4, .arms = 4, .users = 10};

struct Own {
  explicit Own(const McnbOptions& options)
      : threads(1), policy(options, cases::setup_of(kWorld, threads)) {
    Session session(kWorld, Arrival::kAtOnce);
    session.start(policy);
    session.play(policy, 0, 60);
  }

  ThreadPool threads;
  Mcnb policy;
};

TEST(UserOpinions, OfMcnbAreTheEstimatesOfTheUsersOwnNetworks) {
  Own own(lively());
  const OwnRound round = cases::draw_round(kWorld, 99);
  const std::vector<UserId> users{UserId{7}, UserId{0}, UserId{3}};
  std::vector<Features> arms;
  for (const Arm& arm : round.round.arms) {
    arms.push_back(arm.features);
  }
  std::vector<float> opinions;
  find_opinions(own.policy, users, arms, opinions);
  ASSERT_EQ(opinions.size(), users.size() * arms.size());
  const NetworkPool& learners = own.policy.user_learners();
  GradientFactors gradient;
  for (std::size_t i = 0; i < opinions.size(); ++i) {
    learners.find_gradient(users[i / arms.size()], arms[i % arms.size()], gradient);
    EXPECT_NEAR(opinions[i], gradient.value, 1e-5);
  }
}

TEST(UserOpinions, ACloserLookNamesTheClusterAndLeavesTheScoresAsTheyAre) {
  Own own(lively());
  const OwnRound round = cases::draw_round(kWorld, 60);
  const std::vector<Score> before = own.policy.scores(round.round);
  const Arm& arm = round.round.arms[1];
  const CloserLook look = look_closer(own.policy, round.round.id, arm, 5);
  ASSERT_TRUE(look.members.has_value());
  EXPECT_EQ(*look.members, *own.policy.cluster(arm));
  EXPECT_EQ(look.members->size(), before[1].cluster_size);
  EXPECT_LE(look.samples.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(look.samples, std::greater(),
                                     [](const auto& one) { return std::abs(one.moved); }));
  const std::vector<Score> after = own.policy.scores(round.round);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].value, after[i].value);
  }
}

// A short step is linear in its samples: what each of them moved adds up to the whole move.
TEST(UserOpinions, WhatTheSamplesMovedAddsUpToTheMoveOfAShortStep) {
  Own own(with(lively(), [](auto& options) {
    options.meta_steps = 1;
    options.eta_2 = 1e-3;
  }));
  for (std::uint64_t id = 60; id < 64; ++id) {
    const OwnRound round = cases::draw_round(kWorld, id);
    const std::vector<Score> scores = own.policy.scores(round.round);
    for (const Arm& arm : round.round.arms) {
      const CloserLook look = look_closer(own.policy, round.round.id, arm, 1000);
      double sum = 0.0;
      for (const CloserLook::MovingSample& sample : look.samples) {
        sum += sample.moved;
      }
      const double whole =
          scores[index(arm.index)].estimate - own.policy.meta_learner().estimate(arm.features);
      EXPECT_NEAR(sum, whole, 0.02 * std::abs(whole) + 1e-6);
    }
  }
}

TEST(UserOpinions, TheSharedLearnerHasMovedAsFarAsItsParametersSay) {
  ThreadPool threads(1);
  Mcnb fresh(lively(), cases::setup_of(kWorld, threads));
  EXPECT_EQ(shared_movement(fresh), 0.0);
  fresh.meta_learner().parameters()[3] += 0.5F;
  EXPECT_NEAR(*shared_movement(fresh), 0.5, 1e-6);
}

}  // namespace
}  // namespace mcnb::opinions_test
