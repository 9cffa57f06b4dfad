// The fast M-CNB against the textbook, round by round.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "tests/bandit/mcnb_cases.h"
#include "tests/bandit/textbook_mcnb.h"
#include "tests/sanitizers.h"

namespace mcnb::mcnb_oracle_test {
namespace {

using cases::lively;
using cases::OwnRound;
using cases::with;
using cases::World;
using textbook::Event;
using textbook::TextbookMcnb;

constexpr std::uint64_t kRounds = kSanitized ? 160 : 320;
constexpr double kUnsure = 1e-5;  // differences this near to the threshold, and units this near
                                  // to switching on, may go either way in single precision

struct OracleCase {
  const char* name;
  World world{.features = 4, .arms = 4, .users = 10};
  bool user_per_arm = false;  // also if the features are no blocks
  bool late = false;          // feedback comes shuffled, and one in ten never comes
  bool start = true;
  std::size_t users_at_first = 10;  // the others come one by one
  McnbOptions options = lively();
  double tolerance = 2e-5;    // of scores and parameters
  double proper_share = 0.3;  // of clusters that are more than one user and less than all
};

OwnRound draw_round(const OracleCase& what, std::size_t users, std::uint64_t id) {
  OwnRound own = cases::draw_round(what.world, id);
  const auto count = static_cast<std::uint32_t>(what.world.arms);
  for (std::uint32_t i = 0; i < count; ++i) {
    UserId& user = own.round.arms[i].user;
    if (what.world.blocks) {  // two data sets in turn, as in mnist-notmnist
      user = UserId{users >= 2 * count && id % 2 == 1 ? i + count : i};
    } else if (what.user_per_arm) {
      user = UserId{static_cast<std::uint32_t>((index(user) + 3 * i) % users)};
    } else {
      user = UserId{static_cast<std::uint32_t>(index(user) % users)};
    }
    own.rewards[i] = cases::reward_of(what.world, user, own.features[i]);
  }
  return own;
}

// Plays the same rounds with both and compares them.
class Duel {
 public:
  explicit Duel(const OracleCase& what)
      : case_(what),
        threads_(2),
        fast_(what.options, setup()),
        textbook_(what.options, what.world.inputs(), setup().users, setup().seed) {}

  void play() {
    if (case_.start) {
      const OwnRound own = cases::draw_start(case_.world);
      for (std::size_t user = 0; user < setup().users; ++user) {
        const Sample sample{own.round.arms[user].features, own.rewards[user]};
        fast_.start(own.round.arms[user].user, sample);
        textbook_.start(own.round.arms[user].user, sample);
      }
    }
    for (std::uint64_t id = 0; id < kRounds && !testing::Test::HasFailure(); ++id) {
      if (id % 20 == 19 && textbook_.user_count() < case_.world.users) {
        fast_.add_users(1);
        textbook_.add_users(1);
      }
      play_round(id);
      compare_states(id);
    }
    EXPECT_EQ(textbook_.trainings() > kRounds / 10,
              case_.options.training == TrainingMode::kReplay);
    EXPECT_LE(unsure_, clusters_ / 1000);
    EXPECT_LE(kinks_, kRounds / 100);
    EXPECT_GE(static_cast<double>(proper_), case_.proper_share * static_cast<double>(clusters_));
    EXPECT_GE(relative_, case_.proper_share > 0.0 ? kRounds / 2 : 0);
  }

 private:
  PolicySetup setup() {
    PolicySetup setup = cases::setup_of(case_.world, threads_);
    setup.users = std::min(case_.users_at_first, case_.world.users);
    return setup;
  }

  // The members that the fast M-CNB finds; expects that the textbook finds the same.
  TextbookMcnb::Members members(const Arm& arm) {
    const std::vector<UserId> found = fast_.cluster(arm).value();
    const std::vector<double> differences = textbook_.differences(arm);
    EXPECT_TRUE(std::ranges::is_sorted(found));
    TextbookMcnb::Members members;
    for (std::size_t v = 0; v < differences.size(); ++v) {
      const bool inside = std::ranges::binary_search(found, UserId{static_cast<std::uint32_t>(v)});
      if (inside != (differences[v] <= textbook_.gap())) {
        EXPECT_NEAR(differences[v], textbook_.gap(), kUnsure) << "user " << v;
        ++unsure_;
      }
      if (inside) {
        members.push_back(v);
      }
    }
    EXPECT_EQ(members.size(), found.size());
    EXPECT_TRUE(std::ranges::binary_search(found, arm.user));
    ++clusters_;
    proper_ += members.size() > 1 && members.size() < differences.size() ? 1 : 0;
    return members;
  }

  // What the scan of the options finds about the cluster of an arm.
  TextbookMcnb::Found found(RoundId round, const Arm& arm) {
    const TextbookMcnb::Members all = members(arm);
    return case_.options.scan == Scan::kSampled ? textbook_.walk(round, arm, all)
                                                : TextbookMcnb::Found(all);
  }

  void play_round(std::uint64_t id) {
    OwnRound own = draw_round(case_, textbook_.user_count(), id);
    const std::vector<Score> scores = fast_.scores(own.round);
    std::vector<Score> expected;
    const std::size_t kinks_before = kinks_;
    std::size_t different = 0;
    TextbookMcnb::Members first;
    for (const Arm& arm : own.round.arms) {
      const TextbookMcnb::Found cluster = found(own.round.id, arm);
      expected.push_back(textbook_.score(own.round.id, arm, cluster));
      if (!same_estimate(scores[index(arm.index)], expected.back())) {
        double margin = 1.0;
        textbook_.score(own.round.id, arm, cluster, &margin);
        expect_a_kink(margin);
      }
      compare_rest(scores[index(arm.index)], expected.back());
      first = arm.index == ArmIndex{0} ? cluster.members : first;
      different += cluster.members != first ? 1 : 0;
    }
    relative_ += different > 0 ? 1 : 0;
    const ArmIndex choice = fast_.choose(own.round);
    ASSERT_TRUE(choice == highest(expected) || kinks_ > kinks_before) << "round " << id;
    waiting_.emplace_back(std::move(own), choice);
    Rng rng(case_.world.seed, Stream::kTest, id, 6);
    while (waiting_.size() > (case_.late ? 15 : 0)) {
      const auto position = static_cast<std::ptrdiff_t>(rng.below(waiting_.size()));
      if (!case_.late || rng.chance(0.9)) {
        give_feedback(waiting_[static_cast<std::size_t>(position)]);
      }
      waiting_.erase(waiting_.begin() + position);
    }
  }

  void give_feedback(const std::pair<OwnRound, ArmIndex>& decision) {
    const auto& [own, choice] = decision;
    const Arm& arm = own.arm(choice);
    const float reward = own.rewards[index(choice)];
    const TextbookMcnb::Found cluster = found(own.round.id, arm);
    fast_.learn(own.round.id, arm, reward);
    const double margin = textbook_.learn(own.round.id, arm, reward, cluster,
                                          [&](std::vector<Event>& events) { arrange(events); });
    if (!same_parameters()) {
      expect_a_kink(margin);
      textbook_.follow(fast_);
    }
  }

  // Puts the events into the order of the fast M-CNB's slots; both must hold the same events.
  void arrange(std::vector<Event>& events) {
    std::vector<Event> arranged;
    for (const Sample& sample : fast_.histories().all_samples()) {
      const auto same = std::ranges::find_if(
          events, [&](const Event& event) { return same_event(event, sample); });
      ASSERT_NE(same, events.end());
      arranged.push_back(*same);
    }
    ASSERT_EQ(arranged.size(), events.size());
    events = arranged;
  }

  static bool same_event(const Event& event, const Sample& sample) {
    return event.reward == sample.reward && event.x.offset == sample.features.offset &&
           std::ranges::equal(event.x.values, sample.features.values);
  }

  // The two differ. They may if single precision landed on the other side of a kink.
  void expect_a_kink(double margin) {
    EXPECT_LT(margin, kUnsure) << "scores differ by " << largest_score_ << ", parameters by "
                               << largest_parameter_;
    ++kinks_;
  }

  bool same_estimate(const Score& score, const Score& expected) {
    const double difference = std::max(std::abs(score.estimate - expected.estimate),
                                       std::abs(score.part("meta") - expected.part("meta")));
    largest_score_ = std::max(largest_score_, difference);
    return difference <= case_.tolerance;
  }

  void compare_rest(const Score& score, const Score& expected) {
    ASSERT_NEAR(score.part("user"), expected.part("user"), 1e-12);
    ASSERT_EQ(score.value, cases::sum_of(score));
    ASSERT_EQ(score.cluster_size, expected.cluster_size);
    ASSERT_EQ(score.cluster_sample.has_value(), expected.cluster_sample.has_value());
    if (score.cluster_sample) {
      ASSERT_EQ(score.cluster_sample->found, expected.cluster_sample->found);
      ASSERT_EQ(score.cluster_sample->visited, expected.cluster_sample->visited);
    }
    ASSERT_TRUE(score.considered);
  }

  void compare_states(std::uint64_t id) {
    ASSERT_TRUE(same_parameters()) << "round " << id;
    for (std::uint32_t user = 0; user < textbook_.user_count(); ++user) {
      SCOPED_TRACE(testing::Message() << "round " << id << ", user " << user);
      ASSERT_EQ(fast_.trained_count(UserId{user}), textbook_.trained(UserId{user}));

      const std::vector<Sample> history = fast_.histories().samples_of(UserId{user});
      ASSERT_TRUE(std::ranges::equal(textbook_.history(user), history, same_event));
    }
  }

  // Compares the parameters of Theta and of all users.
  bool same_parameters() {
    double largest = 0.0;
    const auto compare = [&](std::span<const float> found, const std::vector<double>& expected) {
      EXPECT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::abs(found[i] - expected[i]);
        largest = difference <= largest ? largest : difference;  // NaN counts as the largest
      }
    };
    compare(fast_.meta_learner().parameters(), textbook_.theta());
    for (std::uint32_t user = 0; user < textbook_.user_count(); ++user) {
      compare(fast_.user_learners().parameters(UserId{user}), textbook_.learner(user));
    }
    largest_parameter_ = std::max(largest_parameter_, largest);
    return largest <= case_.tolerance;
  }

  OracleCase case_;
  ThreadPool threads_;
  Mcnb fast_;
  TextbookMcnb textbook_;
  std::deque<std::pair<OwnRound, ArmIndex>> waiting_;
  std::size_t clusters_ = 0;
  std::size_t proper_ = 0;
  std::size_t unsure_ = 0;    // memberships that differ
  std::size_t kinks_ = 0;     // scores and updates that differ
  std::size_t relative_ = 0;  // rounds whose arms have different clusters
  double largest_score_ = 0.0;
  double largest_parameter_ = 0.0;
};

void expect_matches_textbook(const OracleCase& what) {
  SCOPED_TRACE(what.name);
  if (!testing::Test::HasFailure()) {  // one failure at a time
    Duel(what).play();
  }
}

McnbOptions deep(McnbOptions options) {
  options.network.depth = 3;
  return options;
}

const World kBlocks{.features = 4, .arms = 4, .users = 8, .blocks = true};
// Long enough that the adaptation for a decision leaves the weights as they are.
const World kLongBlocks{.features = 70, .arms = 4, .users = 8, .blocks = true};
const World kSmall{.features = 4, .arms = 3, .users = 6};
const World kSmallBlocks{.features = 4, .arms = 3, .users = 6, .blocks = true};

TEST(McnbOracle, OneUserARound) {
  expect_matches_textbook({.name = "two layers"});
  expect_matches_textbook({.name = "three layers", .options = deep(lively())});
}

TEST(McnbOracle, AUserForEveryArm) {
  expect_matches_textbook({.name = "two layers", .user_per_arm = true});
  expect_matches_textbook(
      {.name = "three layers", .user_per_arm = true, .options = deep(lively())});
}

TEST(McnbOracle, BlockFeatures) {
  expect_matches_textbook({.name = "two layers", .world = kBlocks});
  expect_matches_textbook({.name = "three layers", .world = kBlocks, .options = deep(lively())});
}

TEST(McnbOracle, FeedbackForTheServedUser) {
  const McnbOptions served = with(lively(), [](auto& o) { o.feedback = Feedback::kServed; });
  expect_matches_textbook({.name = "dense", .options = served});
  expect_matches_textbook({.name = "blocks", .world = kBlocks, .options = served});
  expect_matches_textbook({.name = "three layers, a user for every arm",
                           .user_per_arm = true,
                           .options = deep(served)});
}

TEST(McnbOracle, SeveralStepsOfAdaptation) {
  const McnbOptions steps = with(lively(), [](auto& o) { o.meta_steps = 3; });
  expect_matches_textbook({.name = "dense", .options = steps});
  expect_matches_textbook({.name = "blocks", .world = kBlocks, .options = steps});
  expect_matches_textbook({.name = "three layers", .user_per_arm = true, .options = deep(steps)});
}

TEST(McnbOracle, LongBlocks) {
  const McnbOptions steps = with(lively(), [](auto& o) { o.meta_steps = 3; });
  const McnbOptions replay = cases::short_replay();
  expect_matches_textbook({.name = "one step", .world = kLongBlocks});
  expect_matches_textbook({.name = "three steps", .world = kLongBlocks, .options = steps});
  expect_matches_textbook({.name = "replay", .world = kLongBlocks, .options = replay});
  expect_matches_textbook({.name = "replay, biases, bounded, late",
                           .world = kLongBlocks,
                           .late = true,
                           .options = with(replay, [](auto& o) {
                             o.network.biases = true;
                             o.history_limit = 6;
                           })});
}

TEST(McnbOracle, FewMembersTakePart) {
  const McnbOptions few = with(lively(), [](auto& o) { o.meta_samples = 3; });
  expect_matches_textbook({.name = "dense", .options = few});
  expect_matches_textbook({.name = "blocks", .world = kBlocks, .options = few});
  expect_matches_textbook({.name = "three layers, three steps",
                           .user_per_arm = true,
                           .options = deep(with(few, [](auto& o) { o.meta_steps = 3; }))});
}

TEST(McnbOracle, WholeHistories) {
  const McnbOptions all = with(lively(), [](auto& o) { o.meta_draw = MetaDraw::kAll; });
  const McnbOptions served = with(all, [](auto& o) { o.feedback = Feedback::kServed; });
  expect_matches_textbook({.name = "dense", .world = kSmall, .options = all});
  if (kSanitized) {
    return;
  }
  expect_matches_textbook({.name = "blocks", .world = kSmallBlocks, .options = all});
  expect_matches_textbook({.name = "three layers, served, few members",
                           .world = kSmall,
                           .options = deep(with(served, [](auto& o) { o.meta_samples = 2; }))});
  expect_matches_textbook({.name = "blocks, served, three steps",
                           .world = kSmallBlocks,
                           .options = with(served, [](auto& o) { o.meta_steps = 3; })});
}

TEST(McnbOracle, OtherNetworks) {
  const McnbOptions biases = with(lively(), [](auto& o) { o.network.biases = true; });
  expect_matches_textbook({.name = "biases", .options = biases});
  expect_matches_textbook(
      {.name = "biases, three layers, blocks", .world = kBlocks, .options = deep(biases)});
  const McnbOptions symmetric = with(lively(), [](auto& o) {
    o.network.initialisation = Initialisation::kSymmetric;
    o.gamma = 0.03;
  });
  expect_matches_textbook({.name = "symmetric", .options = symmetric});
  expect_matches_textbook(
      {.name = "symmetric, three layers, blocks", .world = kBlocks, .options = deep(symmetric)});
}

TEST(McnbOracle, BoundedHistories) {
  const McnbOptions bounded = with(lively(), [](auto& o) { o.history_limit = 5; });
  expect_matches_textbook({.name = "dense", .options = bounded});
  expect_matches_textbook(
      {.name = "three layers, blocks, all",
       .world = kSmallBlocks,
       .options = deep(with(bounded, [](auto& o) { o.meta_draw = MetaDraw::kAll; }))});
}

TEST(McnbOracle, LateFeedbackInAnotherOrder) {
  expect_matches_textbook({.name = "two layers", .late = true});
  expect_matches_textbook({.name = "three layers, a user for every arm, three steps of few",
                           .user_per_arm = true,
                           .late = true,
                           .options = deep(with(lively(), [](auto& o) {
                             o.meta_steps = 3;
                             o.meta_samples = 3;
                           }))});
  expect_matches_textbook({.name = "blocks, served, bounded",
                           .world = kBlocks,
                           .late = true,
                           .options = with(lively(), [](auto& o) {
                             o.feedback = Feedback::kServed;
                             o.history_limit = 4;
                           })});
}

TEST(McnbOracle, ALiveServiceHasNoStartData) {
  const McnbOptions served = with(lively(), [](auto& o) { o.feedback = Feedback::kServed; });
  expect_matches_textbook({.name = "cluster", .start = false});
  expect_matches_textbook({.name = "served", .start = false, .options = served});
  expect_matches_textbook({.name = "cluster, new users, late",
                           .user_per_arm = true,
                           .late = true,
                           .start = false,
                           .users_at_first = 3});
  expect_matches_textbook({.name = "served, new users after start data, three layers",
                           .users_at_first = 3,
                           .options = deep(served)});
}

TEST(McnbOracle, WalksOverSomeLearners) {
  const World many{.features = 4, .arms = 4, .users = 24};
  const McnbOptions sampled = with(lively(), cases::sample_learners);
  const McnbOptions limited = with(sampled, [](auto& o) { o.scan_limit = 7; });
  expect_matches_textbook(
      {.name = "dense", .world = many, .users_at_first = 24, .options = sampled});
  expect_matches_textbook({.name = "limited, late, a user for every arm",
                           .world = many,
                           .user_per_arm = true,
                           .late = true,
                           .users_at_first = 24,
                           .options = limited});
  expect_matches_textbook({.name = "new users, no start data, bounded histories",
                           .world = many,
                           .late = true,
                           .start = false,
                           .users_at_first = 15,
                           .options = with(sampled, [](auto& o) { o.history_limit = 3; })});
  expect_matches_textbook({.name = "all members up to the limit, whole histories, blocks",
                           .world = kBlocks,
                           .options = with(limited, [](auto& o) {
                             o.meta_samples = 0;
                             o.meta_steps = 1;
                             o.meta_draw = MetaDraw::kAll;
                           })});
  expect_matches_textbook(
      {.name = "three layers", .world = many, .users_at_first = 24, .options = deep(limited)});
}

// Gamma and the rates of the paper: every cluster is all users.
TEST(McnbOracle, PresetAlgorithm) {
  const McnbOptions algorithm =
      with(mcnb_preset("algorithm"), [](auto& o) { o.network.width = 32; });
  expect_matches_textbook({.name = "dense", .options = algorithm, .proper_share = 0.0});
  expect_matches_textbook({.name = "blocks, three layers",
                           .world = kBlocks,
                           .options = deep(algorithm),
                           .proper_share = 0.0});
}

TEST(McnbOracle, PresetExperiments) {
  const McnbOptions replay = cases::short_replay();
  expect_matches_textbook({.name = "dense", .options = replay});
  expect_matches_textbook({.name = "blocks", .world = kBlocks, .options = replay});
  expect_matches_textbook({.name = "three layers, biases, bounded, late",
                           .user_per_arm = true,
                           .late = true,
                           .options = deep(with(replay, [](auto& o) {
                             o.network.biases = true;
                             o.history_limit = 6;
                           }))});
}

TEST(McnbOracle, ReplayOfClusterFeedback) {
  const McnbOptions replay = with(lively(), [](auto& o) {
    o.training = TrainingMode::kReplay;
    o.replay.optimiser = Optimiser::kSgd;
    o.replay.learning_rate = 0.05;
    o.user_steps = 100;
    o.theta_steps = 150;
  });
  expect_matches_textbook({.name = "dense", .options = replay});
  expect_matches_textbook({.name = "three layers, blocks, no start, all",
                           .world = kSmallBlocks,
                           .start = false,
                           .options = deep(with(replay, [](auto& o) {
                             o.history_limit = 20;
                             o.meta_draw = MetaDraw::kAll;
                           }))});
}

}  // namespace
}  // namespace mcnb::mcnb_oracle_test
