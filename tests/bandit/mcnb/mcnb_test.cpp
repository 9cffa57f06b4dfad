#include "mcnb/bandit/mcnb/mcnb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "mcnb/numeric/kmeans.h"
#include "tests/bandit/mcnb_cases.h"

namespace mcnb::mcnb_test {
namespace {

using cases::Arrival;
using cases::knowledge;
using cases::lively;
using cases::OwnRound;
using cases::saved;
using cases::Session;
using cases::with;
using cases::World;
using plain::expect_error;
using plain::same_bits;

const World kWorld{.features = 4, .arms = 4, .users = 10};
const World kBlocks{.features = 4, .arms = 4, .users = 4, .blocks = true};

// A policy that has its own threads.
struct Own {
  explicit Own(const World& world, const McnbOptions& options = lively(), std::size_t count = 2)
      : threads(count), policy(options, cases::setup_of(world, threads)) {}

  ThreadPool threads;
  Mcnb policy;
};

void learn(Mcnb& policy, const OwnRound& own, ArmIndex arm) {
  policy.learn(own.round.id, own.arm(arm), own.rewards[index(arm)]);
}

// A round whose arms are all for one user.
OwnRound round_for(UserId user, std::uint64_t id) {
  OwnRound own = cases::draw_round(kWorld, id);
  for (Arm& arm : own.round.arms) {
    arm.user = user;
  }
  return own;
}

TEST(Mcnb, LateFeedbackRepeatsTheDrawsOfItsDecision) {
  for (const std::uint64_t few : {0U, 3U}) {
    const McnbOptions options = with(lively(), [&](auto& o) {
      o.meta_samples = few;
      o.meta_steps = few == 0 ? 1 : 2;
    });
    Own at_once(kWorld, options);
    Own late(kWorld, options);
    for (Own* own : {&at_once, &late}) {
      Session session(kWorld, Arrival::kAtOnce);
      session.start(own->policy);
      session.play(own->policy, 0, 30);
    }
    const OwnRound decided = cases::draw_round(kWorld, 30);
    const ArmIndex arm = late.policy.choose(decided.round);
    const Score score = late.policy.scores(decided.round)[index(arm)];
    for (std::uint64_t id = 31; id < 60; ++id) {
      late.policy.choose(cases::draw_round(kWorld, id).round);
    }
    learn(late.policy, decided, arm);
    ASSERT_EQ(at_once.policy.choose(decided.round), arm);
    learn(at_once.policy, decided, arm);
    EXPECT_TRUE(same_bits(knowledge(late.policy), knowledge(at_once.policy)));
    // Theta is now the Theta_i of the decision.
    const plain::PlainNetwork theta(late.policy.user_learners().shape(),
                                    late.policy.meta_learner().parameters());
    EXPECT_NEAR(theta.value(decided.arm(arm).features), score.estimate, 1e-5);
  }
}

TEST(Mcnb, AnotherRoundIdGivesOtherDraws) {
  Own own(kWorld);
  Session session(kWorld, Arrival::kAtOnce);
  session.start(own.policy);
  session.play(own.policy, 0, 30);
  OwnRound round = cases::draw_round(kWorld, 77);
  const double before = own.policy.scores(round.round)[0].estimate;
  EXPECT_EQ(own.policy.scores(round.round)[0].estimate, before);
  round.round.id = RoundId{std::numeric_limits<std::uint64_t>::max()};
  EXPECT_NE(own.policy.scores(round.round)[0].estimate, before);
}

TEST(Mcnb, UnknownUsersHaveTheBonusOfOneTraining) {
  Own own(kWorld);
  const OwnRound round = round_for(UserId{3}, 0);
  const McnbOptions& options = own.policy.options();
  const double once = options.exploration * (std::sqrt((options.s + 1.0) / 2.0) +
                                             std::sqrt(2.0 * std::log(1.0 / options.delta)));
  EXPECT_EQ(own.policy.trained_count(UserId{3}), 0U);
  EXPECT_DOUBLE_EQ(own.policy.scores(round.round)[0].part("user"), once);
  EXPECT_EQ(own.policy.scores(round.round)[0].cluster_size, kWorld.users);
  learn(own.policy, round, ArmIndex{0});
  EXPECT_EQ(own.policy.trained_count(UserId{3}), 1U);
  EXPECT_DOUBLE_EQ(own.policy.scores(round.round)[0].part("user"), once);
  learn(own.policy, round, ArmIndex{1});
  EXPECT_EQ(own.policy.trained_count(UserId{3}), 2U);
  EXPECT_DOUBLE_EQ(own.policy.scores(round.round)[0].part("user"), once / std::sqrt(2.0));
}

TEST(Mcnb, TheFirstFeedbackOfAUserIsThatUsersAlone) {
  Own own(kWorld, with(lively(), [](auto& o) { o.gamma = 0.999; }));  // all agree
  const NetworkPool& learners = std::as_const(own.policy).user_learners();
  learn(own.policy, round_for(UserId{3}, 0), ArmIndex{0});
  for (std::uint32_t user = 0; user < kWorld.users; ++user) {
    EXPECT_EQ(learners.is_distinct(UserId{user}), user == 3);
    EXPECT_EQ(own.policy.trained_count(UserId{user}), user == 3 ? 1U : 0U);
    EXPECT_EQ(own.policy.histories().size(UserId{user}), user == 3 ? 1U : 0U);
  }
  EXPECT_TRUE(same_bits(own.policy.meta_learner().parameters(), learners.start()));
  // All users learn from the second one.
  learn(own.policy, round_for(UserId{3}, 1), ArmIndex{0});
  for (std::uint32_t user = 0; user < kWorld.users; ++user) {
    EXPECT_EQ(own.policy.trained_count(UserId{user}), user == 3 ? 2U : 1U);
  }
  EXPECT_FALSE(same_bits(own.policy.meta_learner().parameters(), learners.start()));
  // User 5 has been trained on user 3's feedback, but user 5's own first feedback is still to come.
  learn(own.policy, round_for(UserId{5}, 2), ArmIndex{0});
  for (std::uint32_t user = 0; user < kWorld.users; ++user) {
    EXPECT_EQ(own.policy.trained_count(UserId{user}), user == 3 || user == 5 ? 2U : 1U);
  }
}

TEST(Mcnb, AllUsersOfALiveServiceComeToDiffer) {
  Own own(kWorld, with(lively(), [](auto& o) { o.gamma = 0.999; }));
  for (std::uint32_t id = 0; id < 20; ++id) {  // user 0 ten times, then each user once
    learn(own.policy, round_for(UserId{id < 10 ? 0 : id - 10}, id), ArmIndex{0});
  }
  std::set<std::vector<float>> different;
  for (std::uint32_t user = 0; user < kWorld.users; ++user) {
    const auto own_network = std::as_const(own.policy).user_learners().parameters(UserId{user});
    different.insert({own_network.begin(), own_network.end()});
  }
  EXPECT_EQ(different.size(), kWorld.users);
}

TEST(Mcnb, UsersWhomNobodyTouchesShareOneNetwork) {
  const World world{.features = 4, .arms = 4, .users = 1000};
  Own own(world, with(lively(), [](auto& o) { o.feedback = Feedback::kServed; }));
  std::set<std::uint32_t> served;
  for (std::uint64_t id = 0; id < 20; ++id) {
    const OwnRound round = cases::draw_round(world, id);
    learn(own.policy, round, own.policy.choose(round.round));
    served.insert(static_cast<std::uint32_t>(round.round.arms[0].user));
  }
  EXPECT_EQ(own.policy.user_learners().distinct_count(), served.size());
}

// Equal users have the same predictions, clusters and updates, so only data of their own makes them
// differ.
TEST(Mcnb, EqualUsersStayEqualUnderClusterFeedback) {
  Own own(kWorld);
  const NetworkPool& learners = std::as_const(own.policy).user_learners();
  for (std::uint32_t id = 0; id < 100; ++id) {
    const OwnRound round = round_for(UserId{id % 4}, id);  // users 4 to 9 are never served
    learn(own.policy, round, own.policy.choose(round.round));
    for (std::uint32_t user = 5; user < kWorld.users; ++user) {
      ASSERT_TRUE(same_bits(learners.parameters(UserId{user}), learners.parameters(UserId{4})));
      ASSERT_EQ(own.policy.trained_count(UserId{user}), own.policy.trained_count(UserId{4}));
    }
  }
  EXPECT_GT(own.policy.trained_count(UserId{4}), 0U);
}

TEST(Mcnb, NewUsersMayComeAtAnyTime) {
  Own own(kWorld, with(lively(), [](auto& o) { o.gamma = 0.999; }));  // all agree
  Session session(kWorld, Arrival::kAtOnce);
  session.start(own.policy);
  session.play(own.policy, 0, 20);
  OwnRound round = cases::draw_round(kWorld, 20);
  const ArmIndex arm = own.policy.choose(round.round);
  own.policy.add_users(2);  // between decision and feedback
  EXPECT_EQ(own.policy.user_count(), kWorld.users + 2);
  EXPECT_TRUE(same_bits(own.policy.user_learners().parameters(UserId{11}),
                        own.policy.user_learners().start()));
  learn(own.policy, round, arm);
  for (const UserId user : {UserId{10}, UserId{11}}) {
    EXPECT_EQ(own.policy.trained_count(user), 1U);
  }
  for (Arm& each : round.round.arms) {
    each.user = UserId{11};
  }
  round.round.id = RoundId{21};
  learn(own.policy, round, own.policy.choose(round.round));
  EXPECT_TRUE(own.policy.user_learners().is_distinct(UserId{11}));
  expect_error(ErrorKind::kUsage, "", [&] { own.policy.add_users(0); });
}

TEST(Mcnb, ThreadsDoNotChangeAnything) {
  const World many{.features = 6, .arms = 15, .users = 300};
  const World long_blocks{.features = 70, .arms = 5, .users = 5, .blocks = true};
  const McnbOptions deep = with(lively(), [](auto& o) {
    o.network.depth = 3;
    o.meta_steps = 2;
    o.meta_samples = 5;
  });
  for (const auto& [world, options] : {std::pair(many, lively()), std::pair(many, deep),
                                       std::pair(many, with(lively(), cases::sample_learners)),
                                       std::pair(long_blocks, cases::short_replay())}) {
    std::vector<std::string> states;
    std::vector<std::vector<double>> values;
    for (const std::size_t threads : {1U, 2U, 8U}) {
      Own own(world, options, threads);
      Session session(world, Arrival::kLate);
      session.start(own.policy);
      session.play(own.policy, 0, 40);
      states.push_back(saved(own.policy));
      values.push_back(session.values());
    }
    for (const std::size_t other : {1U, 2U}) {
      EXPECT_TRUE(cases::same_bits(values[0], values[other]));
      EXPECT_EQ(states[0], states[other]);
    }
  }
}

TEST(Mcnb, LookingChangesNothing) {
  Own looked(kWorld);
  Own other(kWorld);
  for (std::uint64_t id = 0; id < 60; ++id) {
    const OwnRound round = cases::draw_round(kWorld, id);
    const OwnRound elsewhere = cases::draw_round(kWorld, 1000 + id);
    const std::string before = saved(looked.policy);
    looked.policy.scores(elsewhere.round);
    looked.policy.cluster(elsewhere.round.arms[2]);
    ASSERT_EQ(saved(looked.policy), before);
    const ArmIndex arm = looked.policy.choose(round.round);
    looked.policy.scores(elsewhere.round);
    looked.policy.cluster(elsewhere.round.arms[1]);
    learn(looked.policy, round, arm);
    ASSERT_EQ(other.policy.choose(round.round), arm);
    learn(other.policy, round, arm);
    ASSERT_EQ(saved(looked.policy), saved(other.policy));
  }
}

TEST(Mcnb, GivesTiesToTheLowestIndex) {
  Own same(kWorld, with(lively(), [](auto& o) { o.meta_draw = MetaDraw::kAll; }));
  cases::start_all(kWorld, same.policy);
  OwnRound round = cases::draw_round(kWorld, 3);
  for (Arm& arm : round.round.arms) {
    arm.features = round.round.arms[0].features;
  }
  EXPECT_EQ(same.policy.choose(round.round), ArmIndex{0});
  Own zero(kWorld, with(lively(), [](auto& o) {
             o.network.initialisation = Initialisation::kSymmetric;  // f = 0 everywhere
             o.exploration = 0.0;
           }));
  for (std::uint64_t id = 0; id < 5; ++id) {
    EXPECT_EQ(zero.policy.choose(cases::draw_round(kWorld, id).round), ArmIndex{0});
  }
}

TEST(Mcnb, SAndDeltaMatterOnlyWhereArmsHaveDifferentUsers) {
  const auto choices = [](const World& world, double s, double delta) {
    Own own(world, with(lively(), [&](auto& o) {
              o.s = s;
              o.delta = delta;
              o.feedback = Feedback::kServed;
              o.exploration = 1.0;
            }));
    Session session(world, Arrival::kAtOnce);
    session.start(own.policy);
    session.play(own.policy, 0, 120);
    return session.choices();
  };
  EXPECT_EQ(choices(kWorld, 1, 0.1), choices(kWorld, 100, 0.1));
  EXPECT_EQ(choices(kWorld, 1, 0.1), choices(kWorld, 1, 0.9));
  EXPECT_NE(choices(kBlocks, 0, 0.999), choices(kBlocks, 100, 0.999));
  EXPECT_NE(choices(kBlocks, 0, 0.999), choices(kBlocks, 0, 0.01));
}

TEST(Mcnb, KeepsTheArmsWithTheHighestPlainEstimates) {
  const World world{.features = 4, .arms = 12, .users = 6};
  Own all(world);
  Own few(world, with(lively(), [](auto& o) { o.keep_arms = 5; }));
  Session session(world, Arrival::kAtOnce);
  session.start(few.policy);
  for (std::uint64_t id = 0; id < 60; ++id) {
    cases::load(all.policy, saved(few.policy));
    const plain::PlainNetwork theta(few.policy.user_learners().shape(),
                                    few.policy.meta_learner().parameters());
    const OwnRound own = cases::draw_round(world, id);
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < world.arms; ++i) {
      order.emplace_back(-theta.value(own.round.arms[i].features), i);
    }
    std::ranges::sort(order);
    std::set<std::size_t> kept;
    for (std::size_t i = 0; i < 5; ++i) {
      kept.insert(order[i].second);
    }
    const std::vector<Score> expected = all.policy.scores(own.round);
    const std::vector<Score> found = few.policy.scores(own.round);
    std::size_t best = *kept.begin();
    for (std::size_t i = 0; i < world.arms; ++i) {
      ASSERT_EQ(found[i].considered, kept.contains(i)) << "round " << id << ", arm " << i;
      ASSERT_TRUE(expected[i].considered);
      if (found[i].considered) {
        ASSERT_EQ(found[i].value, expected[i].value);
        ASSERT_EQ(found[i].cluster_size, expected[i].cluster_size);
        best = expected[i].value > expected[best].value ? i : best;
      }
    }
    const ArmIndex choice = few.policy.choose(own.round);
    ASSERT_EQ(index(choice), best);
    // Feedback may also come on an arm that was left out.
    const ArmIndex arm =
        id % 3 == 0 ? ArmIndex{static_cast<std::uint32_t>(order[9].second)} : choice;
    all.policy.choose(own.round);
    learn(all.policy, own, arm);
    learn(few.policy, own, arm);
    ASSERT_TRUE(same_bits(knowledge(all.policy), knowledge(few.policy)));
  }
}

TEST(Mcnb, TakesTenThousandArms) {
  const World world{.features = 3, .arms = kMostArms, .users = 3};
  Own own(world, with(lively(), [](auto& o) {
            o.network.width = 4;
            o.meta_steps = 2;
          }));
  cases::start_all(world, own.policy);
  const OwnRound round = cases::draw_round(world, 1);
  EXPECT_EQ(own.policy.choose(round.round), highest(own.policy.scores(round.round)));
  learn(own.policy, round, ArmIndex{kMostArms - 1});
}

// A policy with pre-clusters must equal a policy whose users are the groups.
TEST(Mcnb, PreClustersActAsOneUserEach) {
  const World world{.features = 4, .arms = 4, .users = 30};
  constexpr std::size_t kGroups = 5;
  std::vector<float> features;
  Rng rng(3, Stream::kTest);
  for (std::size_t user = 0; user < world.users; ++user) {
    features.push_back(static_cast<float>(rng.normal()));
    features.push_back(static_cast<float>(rng.normal()));
  }
  ThreadPool threads(2);
  PolicySetup setup = cases::setup_of(world, threads);
  setup.user_features = features;
  setup.user_feature_count = 2;
  const McnbOptions options = lively();
  Mcnb grouped(with(options, [](auto& o) { o.pre_clusters = kGroups; }), setup);
  const std::vector<std::uint32_t> group = k_means(features, 2, kGroups, setup.seed).group;
  setup.users = kGroups;
  Mcnb groups(options, setup);
  EXPECT_EQ(grouped.user_count(), world.users);
  EXPECT_EQ(grouped.user_learners().user_count(), kGroups);
  for (std::uint64_t id = 0; id < 100; ++id) {
    if (id == 60) {  // newcomers belong to no group
      grouped.add_users(1);
      groups.add_users(1);
    }
    OwnRound own = cases::draw_round(world, id);
    OwnRound by_group = own;
    for (std::size_t i = 0; i < world.arms; ++i) {
      Arm& arm = own.round.arms[i];
      arm.user = id >= 60 && i == 1 ? UserId{30} : arm.user;
      by_group.round.arms[i].user = UserId{arm.user == UserId{30} ? 5 : group[index(arm.user)]};
    }
    const ArmIndex choice = grouped.choose(own.round);
    ASSERT_EQ(groups.choose(by_group.round), choice);
    const std::vector<UserId> members = grouped.cluster(own.arm(choice)).value();
    const std::vector<UserId> member_groups = groups.cluster(by_group.arm(choice)).value();
    std::vector<UserId> expected;
    for (std::uint32_t user = 0; user < grouped.user_count(); ++user) {
      const UserId of{user == 30 ? 5 : group[user]};
      if (std::ranges::count(member_groups, of) > 0) {
        expected.push_back(UserId{user});
      }
    }
    ASSERT_EQ(members, expected);
    learn(grouped, own, choice);
    learn(groups, by_group, choice);
    ASSERT_TRUE(same_bits(knowledge(grouped), knowledge(groups)));
    ASSERT_EQ(grouped.trained_count(own.arm(choice).user),
              groups.trained_count(by_group.arm(choice).user));
  }
}

TEST(Mcnb, EndlessFeedbackNeedsNoMoreMemoryWithAHistoryLimit) {
  Own own(kWorld, with(lively(), [](auto& o) { o.history_limit = 6; }));
  Session session(kWorld, Arrival::kAtOnce);
  session.start(own.policy);
  session.play(own.policy, 0, 300);
  const std::size_t memory = own.policy.memory_bytes();
  session.play(own.policy, 300, 1500);
  EXPECT_LE(own.policy.memory_bytes(), memory + memory / 20);
  EXPECT_LE(own.policy.histories().event_slots(), kWorld.users * 6 + 1);
}

}  // namespace
}  // namespace mcnb::mcnb_test
