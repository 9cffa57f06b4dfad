// Rounds and feedback in batches give what they give one by one, and forgotten users are as new.

#include <gtest/gtest.h>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "tests/bandit/mcnb_cases.h"

namespace mcnb::mcnb_batches_test {
namespace {

using cases::lively;
using cases::OwnRound;
using cases::saved;
using cases::with;
using cases::World;

const World kWorld{.features = 5, .arms = 4, .users = 9};

struct Played {
  std::string state;
  std::vector<double> values;
};

// Rounds come in groups of `group`; their feedback, of the first arm, after each group.
Played play(const McnbOptions& options, std::size_t group, std::size_t threads, bool at_once) {
  ThreadPool pool(threads);
  Mcnb policy(options, cases::setup_of(kWorld, pool));
  Played played;
  for (std::uint64_t t = 0; t < 96; t += group) {
    std::vector<OwnRound> own;
    std::vector<Round> rounds;
    std::vector<RewardedArm> rewarded;
    for (std::uint64_t i = t; i < t + group; ++i) {
      own.push_back(cases::draw_round(kWorld, i));
    }
    for (const OwnRound& one : own) {
      rounds.push_back(one.round);
      rewarded.push_back(
          {one.round.id, one.round.arms[0], static_cast<float>(index(one.round.id) % 3) * 0.5F});
    }
    std::vector<std::vector<Score>> scores;
    if (at_once) {
      scores = policy.scores_of(rounds);
      EXPECT_EQ(policy.learn_all(rewarded), 0U);
    } else {
      for (const Round& round : rounds) {
        scores.push_back(policy.scores(round));
      }
      for (const RewardedArm& one : rewarded) {
        policy.learn(one.round, one.arm, one.reward);
      }
    }
    for (const auto& round : scores) {
      for (const Score& score : round) {
        played.values.push_back(score.value);
      }
    }
  }
  played.state = saved(policy);
  return played;
}

TEST(McnbBatches, RoundsAndFeedbackTogetherGiveWhatTheyGiveOneByOne) {
  const McnbOptions served = with(lively(), [](auto& o) { o.feedback = Feedback::kServed; });
  for (const McnbOptions& options :
       {served, with(served, [](auto& o) { o.keep_arms = 2; }),
        with(served, [](auto& o) { o.meta_steps = 3, o.meta_samples = 2, o.history_limit = 4; }),
        lively(), cases::short_replay()}) {
    const Played one_by_one = play(options, 8, 1, false);
    for (const std::size_t threads : {std::size_t{1}, std::size_t{3}}) {
      const Played together = play(options, 8, threads, true);
      EXPECT_EQ(together.values, one_by_one.values);
      EXPECT_EQ(together.state, one_by_one.state);
    }
  }
}

TEST(McnbBatches, BadFeedbackOfABatchIsPassedOver) {
  ThreadPool pool(1);
  const McnbOptions served = with(lively(), [](auto& o) { o.feedback = Feedback::kServed; });
  Mcnb policy(served, cases::setup_of(kWorld, pool));
  Mcnb other(served, cases::setup_of(kWorld, pool));
  const OwnRound own = cases::draw_round(kWorld, 1);
  RewardedArm good{own.round.id, own.round.arms[0], 1.0F};
  RewardedArm bad = good;
  bad.arm.user = UserId{1000};
  EXPECT_EQ(policy.learn_all(std::vector{bad, good, bad}), 2U);
  other.learn(good.round, good.arm, good.reward);
  EXPECT_EQ(saved(policy), saved(other));
}

TEST(McnbBatches, AForgottenUserIsAsNewAndTheOthersStayAsTheyWere) {
  ThreadPool pool(2);
  for (const Feedback feedback : {Feedback::kServed, Feedback::kCluster}) {
    Mcnb policy(with(lively(), [&](auto& o) { o.feedback = feedback; }),
                cases::setup_of(kWorld, pool));
    for (std::uint64_t t = 0; t < 60; ++t) {
      const OwnRound own = cases::draw_round(kWorld, t);
      policy.learn(own.round.id, own.round.arms[0], static_cast<float>(t % 2));
    }
    const UserId user = cases::draw_round(kWorld, 3).round.arms[0].user;
    const UserId other{index(user) == 0 ? 1U : 0U};
    ASSERT_GT(policy.histories().size(user), 0U);
    const std::span<const float> others = policy.user_learners().parameters(other);
    const std::vector<float> before(others.begin(), others.end());
    EXPECT_TRUE(policy.forget(user));
    EXPECT_EQ(policy.histories().size(user), 0U);
    EXPECT_EQ(policy.trained_count(user), 0U);
    EXPECT_TRUE(std::ranges::equal(policy.user_learners().parameters(user),
                                   policy.user_learners().start()));
    EXPECT_TRUE(std::ranges::equal(policy.user_learners().parameters(other), before));
    const std::string state = saved(policy);
    Mcnb loaded(policy.options(), cases::setup_of(kWorld, pool));
    cases::load(loaded, state);
    EXPECT_EQ(saved(loaded), state);
  }
}

}  // namespace
}  // namespace mcnb::mcnb_batches_test
