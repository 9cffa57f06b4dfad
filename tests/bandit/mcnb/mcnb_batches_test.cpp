// Rounds and feedback in batches give the results that they give one by one.

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

// Plays 96 rounds in groups of `group`. After each group comes the feedback on the first arm of
// each of its rounds.
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
      EXPECT_TRUE(policy.learn_all(rewarded).empty());
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
        lively(), cases::short_replay(), with(lively(), cases::sample_learners)}) {
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
  EXPECT_EQ(policy.learn_all(std::vector{bad, good, bad}).size(), 2U);
  other.learn(good.round, good.arm, good.reward);
  EXPECT_EQ(saved(policy), saved(other));
}

}  // namespace
}  // namespace mcnb::mcnb_batches_test
