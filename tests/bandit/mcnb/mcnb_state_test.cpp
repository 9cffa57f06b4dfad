// The state of M-CNB: saved, loaded, forgotten in part, and unchanged by calls that it refuses.

#include <gtest/gtest.h>

#include <limits>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "tests/bandit/mcnb_cases.h"
#include "tests/sanitizers.h"

namespace mcnb::mcnb_state_test {
namespace {

using cases::Arrival;
using cases::lively;
using cases::OwnRound;
using cases::saved;
using cases::Session;
using cases::with;
using cases::World;
using plain::expect_error;

const World kWorld{.features = 4, .arms = 4, .users = 8};
const World kBlocks{.features = 4, .arms = 4, .users = 4, .blocks = true};
const World kLongBlocks{.features = 70, .arms = 4, .users = 4, .blocks = true};
constexpr std::uint64_t kRounds = 110;

// One feature for each user; users with equal features form pre-clusters.
const std::vector<float> kUserFeatures{0, 1, 2, 3, 0, 1, 2, 3};

class Own {
 public:
  Own(const World& world, const McnbOptions& options) : threads_(2) {
    PolicySetup setup = cases::setup_of(world, threads_);
    setup.user_features = std::span(kUserFeatures).first(setup.users);
    setup.user_feature_count = 1;
    policy_ = std::make_unique<Mcnb>(options, setup);
  }
  Mcnb& operator*() { return *policy_; }
  Mcnb* operator->() { return policy_.get(); }

 private:
  ThreadPool threads_;
  std::unique_ptr<Mcnb> policy_;
};

struct StateCase {
  const char* name;
  World world;
  McnbOptions options;
  bool start = true;
};

std::vector<StateCase> all_cases() {
  const McnbOptions bounded = with(lively(), [](auto& o) { o.history_limit = 3; });
  return {
      {"algorithm", kWorld, lively()},
      {"live", kWorld, lively(), false},
      {"served, blocks", kBlocks, with(lively(), [](auto& o) { o.feedback = Feedback::kServed; })},
      {"bounded", kWorld, bounded},
      {"bounded, blocks, live, three layers", kBlocks,
       with(bounded, [](auto& o) { o.network.depth = 3; }), false},
      {"replay", kWorld, cases::short_replay()},
      {"replay, bounded, blocks", kBlocks,
       with(cases::short_replay(),
            [](auto& o) {
              o.history_limit = 4;
              o.network.biases = true;
            })},
      {"replay, bounded, long blocks", kLongBlocks,
       with(cases::short_replay(), [](auto& o) { o.history_limit = 4; })},
      {"pre-clusters, few arms", kWorld,
       with(lively(),
            [](auto& o) {
              o.pre_clusters = 3;
              o.keep_arms = 2;
            })},
      {"sampled", kWorld, with(lively(), cases::sample_learners), false},
      {"sampled, limit, bounded", kWorld,
       with(bounded,
            [](auto& o) {
              cases::sample_learners(o);
              o.scan_limit = 5;
            })},
  };
}

// Everything that can differ between two runs.
struct Outcome {
  std::vector<double> values;
  std::vector<std::size_t> choices;
  std::string state;
};

TEST(McnbState, SaveAndLoadInTheMiddleChangesNothing) {
  for (const StateCase& what : all_cases()) {
    for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
      SCOPED_TRACE(testing::Message() << what.name << (arrival == Arrival::kLate ? ", late" : ""));
      const auto run = [&](std::uint64_t stop, bool into_a_used_one) {
        Session session(what.world, arrival);
        Own first(what.world, what.options);
        if (what.start) {
          session.start(*first);
        }
        session.play(*first, 0, stop);
        Own second(what.world, what.options);
        if (into_a_used_one) {
          Session(what.world, arrival).play(*second, 500, 530);
          second->add_users(3);
        }
        const std::string state = saved(*first);
        cases::load(*second, state);
        EXPECT_EQ(saved(*second), state);
        EXPECT_EQ(second->user_count(), first->user_count());
        session.play(*second, stop, kRounds);
        return Outcome{session.values(), session.choices(), saved(*second)};
      };
      const Outcome through = run(kRounds, false);
      for (const std::uint64_t stop : {0U, 1U, 9U, 40U, 99U}) {
        if (kThreadSanitized && stop != 40) {
          continue;
        }
        const Outcome stopped = run(stop, stop == 40);
        ASSERT_EQ(stopped.choices, through.choices) << "stopped at " << stop;
        ASSERT_TRUE(cases::same_bits(stopped.values, through.values)) << "stopped at " << stop;
        ASSERT_EQ(stopped.state, through.state) << "stopped at " << stop;
      }
    }
  }
}

// Feedback at once uses the clusters of the decision; after a load they are found again.
TEST(McnbState, FeedbackAtOnceIsAsIfTheDecisionWereForgotten) {
  for (const StateCase& what : all_cases()) {
    SCOPED_TRACE(what.name);
    Own remembers(what.world, what.options);
    Own forgets(what.world, what.options);
    for (std::uint64_t id = 0; id < 80; ++id) {
      const OwnRound own = cases::draw_round(what.world, id);
      const ArmIndex choice = remembers->choose(own.round);
      ASSERT_EQ(forgets->choose(own.round), choice);
      cases::load(*forgets, saved(*forgets));
      for (Own* each : {&remembers, &forgets}) {
        (*each)->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
      }
      ASSERT_EQ(saved(*remembers), saved(*forgets)) << "round " << id;
    }
  }
}

// Feedback that resembles the last decision but has another user or other features.
TEST(McnbState, OnlyTheSameArmIsRemembered) {
  Own one(kWorld, lively());
  Own other(kWorld, lively());
  for (Own* each : {&one, &other}) {
    Session session(kWorld, Arrival::kAtOnce);
    session.start(**each);
    session.play(**each, 0, 20);
  }
  const std::string before = saved(*one);
  const OwnRound own = cases::draw_round(kWorld, 20);
  const OwnRound elsewhere = cases::draw_round(kWorld, 21);
  std::vector<Arm> others;
  for (const Arm& arm : own.round.arms) {
    for (std::uint32_t user = 0; user < kWorld.users; ++user) {
      others.push_back(arm);
      others.back().user = UserId{user};
    }
    others.push_back(arm);
    others.back().features = elsewhere.round.arms[index(arm.index)].features;
  }
  for (const Arm& arm : others) {
    cases::load(*one, before);
    cases::load(*other, before);
    one->choose(own.round);
    one->learn(own.round.id, arm, 0.5F);
    other->learn(own.round.id, arm, 0.5F);
    EXPECT_TRUE(plain::same_bits(cases::knowledge(*one), cases::knowledge(*other)));
  }
  // The decision is forgotten when a caller sets a network.
  cases::load(*one, before);
  cases::load(*other, before);
  one->choose(own.round);
  Rng rng(1, Stream::kTest);
  for (Own* each : {&one, &other}) {
    Rng weights = rng;
    (*each)->user_learners().set_parameters(
        own.round.arms[0].user, plain::draw_network(weights, (*each)->user_learners().shape()));
    (*each)->learn(own.round.id, own.round.arms[0], 0.5F);
  }
  EXPECT_TRUE(plain::same_bits(cases::knowledge(*one), cases::knowledge(*other)));
}

TEST(McnbState, OfOtherOptionsOrAnotherSeedIsRefused) {
  Own own(kWorld, lively());
  Session session(kWorld, Arrival::kAtOnce);
  session.start(*own);
  session.play(*own, 0, 30);
  const std::string state = saved(*own);
  const auto refused = [&](const World& world, const McnbOptions& options) {
    Own other(world, options);
    expect_error(ErrorKind::kCorrupt, "", [&] { cases::load(*other, state); });
  };
  refused(kWorld, with(lively(), [](auto& o) { o.network.width = 8; }));
  refused(kWorld, with(lively(), [](auto& o) { o.network.depth = 3; }));
  refused(kWorld, with(lively(), [](auto& o) { o.network.biases = true; }));
  refused(kWorld, with(lively(), [](auto& o) { o.history_limit = 3; }));
  refused(kBlocks, lively());
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of(kWorld, threads);
  setup.seed = 8;
  Mcnb other_seed(lively(), setup);
  expect_error(ErrorKind::kCorrupt, "these options and this seed",
               [&] { cases::load(other_seed, state); });
}

TEST(McnbState, ThatIsDamagedIsRefused) {
  Own own(kWorld, with(lively(), [](auto& o) {
            o.network.width = 6;
            o.history_limit = 3;
          }));
  Session session(kWorld, Arrival::kAtOnce);
  session.start(*own);
  session.play(*own, 0, 30);
  const std::string state = saved(*own);
  const auto refused = [&](const std::string& damaged, std::size_t offset) {
    Own other(kWorld, own->options());
    try {
      cases::load(*other, damaged);
      ADD_FAILURE() << "not noticed at byte " << offset << " of " << state.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    }
  };
  for (std::size_t offset = 0; offset < state.size(); offset += 1 + state.size() / 97) {
    std::string damaged = state;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 0x10);
    refused(damaged, offset);
    refused(state.substr(0, offset), offset);
  }
  refused(state.substr(0, state.size() - 1), state.size() - 1);
  refused(state + "x", state.size());
}

TEST(McnbState, AForgottenUserIsAsNewAndTheOthersStayAsTheyWere) {
  ThreadPool pool(2);
  for (const McnbOptions& options :
       {lively(), with(lively(), [](auto& o) { o.feedback = Feedback::kServed; }),
        with(lively(), cases::sample_learners)}) {
    Mcnb policy(options, cases::setup_of(kWorld, pool));
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

class McnbRefuses : public testing::Test {
 protected:
  McnbRefuses() : own_(kWorld, lively()), round_(cases::draw_round(kWorld, 40)) {
    Session session(kWorld, Arrival::kAtOnce);
    session.start(*own_);
    session.play(*own_, 0, 40);
    before_ = saved(*own_);
  }

  // Expects that `choose` and `scores` refuse the round and change nothing.
  void refused_round(const std::string& words, const Round& round) {
    expect_error(ErrorKind::kInput, words, [&] { own_->choose(round); });
    expect_error(ErrorKind::kInput, words, [&] { own_->scores(round); });
    EXPECT_EQ(saved(*own_), before_) << words;
  }

  // Expects that the arm is refused in a round, as feedback, as start data and by `cluster`.
  void refused_arm(const std::string& words, const Arm& arm) {
    Round round = round_.round;
    round.arms[2] = arm;
    round.arms[2].index = ArmIndex{2};
    refused_round("round 40, arm 2: " + words, round);
    refused_feedback(words, arm, 1.0F);
    expect_error(ErrorKind::kInput, words, [&] { own_->cluster(arm); });
    EXPECT_EQ(saved(*own_), before_) << words;
  }

  void refused_feedback(const std::string& words, const Arm& arm, float reward) {
    own_->choose(round_.round);  // it may even be the arm of the last decision
    const std::string before = saved(*own_);
    expect_error(ErrorKind::kInput, words, [&] { own_->learn(RoundId{40}, arm, reward); });
    expect_error(ErrorKind::kInput, words, [&] { own_->start(arm.user, {arm.features, reward}); });
    EXPECT_EQ(saved(*own_), before) << words;
    cases::load(*own_, before_);
  }

  Own own_;
  OwnRound round_;
  std::string before_;
};

TEST_F(McnbRefuses, RoundsWithoutArmsOrWithTooMany) {
  refused_round("round 40: expected 1 to 10000 arms, got 0", {RoundId{40}, {}});
  Round many{RoundId{41}, {}};
  for (std::uint32_t i = 0; i <= kMostArms; ++i) {
    many.arms.push_back(round_.round.arms[0]);
    many.arms.back().index = ArmIndex{i};
  }
  refused_round("round 41: expected 1 to 10000 arms, got 10001", many);
}

TEST_F(McnbRefuses, WrongIndices) {
  std::swap(round_.round.arms[1].index, round_.round.arms[3].index);
  refused_round("round 40, arm 1: expected the index 1, got 3", round_.round);
  Arm arm = round_.round.arms[0];
  arm.index = ArmIndex{kMostArms};
  expect_error(ErrorKind::kInput, "expected an arm index below 10000",
               [&] { own_->learn(RoundId{40}, arm, 1.0F); });
  EXPECT_EQ(saved(*own_), before_);
}

TEST_F(McnbRefuses, UnknownUsers) {
  for (const std::uint32_t user : {8U, 0xffffffffU}) {
    Arm arm = round_.round.arms[2];
    arm.user = UserId{user};
    refused_arm("user " + std::to_string(user) + " is unknown, there are 8 users", arm);
  }
}

TEST_F(McnbRefuses, FeaturesThatAreNotFiniteOrDoNotFit) {
  std::vector<float> x(4, 0.5F);
  Arm arm = round_.round.arms[2];
  arm.features = {x, 0};
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    x[3] = bad;
    refused_arm("feature 3 is", arm);
  }
  x.assign(5, 0.5F);
  arm.features = {x, 0};
  refused_arm("5 features at offset 0 do not fit 4 network inputs", arm);
  arm.features = {{x.data(), 3}, 2};
  refused_arm("3 features at offset 2 do not fit", arm);
  arm.features = {{x.data(), 1}, 0xffffffffU};
  refused_arm("1 features at offset 4294967295 do not fit", arm);
  arm.features = {};
  refused_arm("0 features", arm);
}

TEST_F(McnbRefuses, RewardsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    refused_feedback("the reward is", round_.round.arms[1], bad);
  }
}

TEST_F(McnbRefuses, FeaturesTooLargeForTheNetwork) {
  const std::vector<float> x(4, 3e38F);
  Arm arm = round_.round.arms[2];
  arm.features = {x, 0};
  Round round = round_.round;
  round.arms[2] = arm;
  refused_round("has left the finite numbers", round);
  expect_error(ErrorKind::kInput, "has left the finite numbers",
               [&] { own_->learn(RoundId{40}, arm, 1.0F); });
  EXPECT_EQ(saved(*own_), before_);
}

}  // namespace
}  // namespace mcnb::mcnb_state_test
