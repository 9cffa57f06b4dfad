#include "mcnb/bandit/policies.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "tests/bandit/every_policy.h"

namespace mcnb::policies_test {
namespace {

using cases::Arrival;
using cases::for_every_policy;
using cases::make;
using cases::OwnRound;
using cases::Session;
using cases::World;
using plain::expect_error;

// ---- names and options

TEST(Policies, AreParsedFromTheirText) {
  EXPECT_EQ(parse_policy("random").name, "random");
  EXPECT_TRUE(parse_policy("random").options.empty());
  const std::string text = "linucb:users=each:alpha=0.25";
  const PolicySpec spec = parse_policy(text);
  EXPECT_EQ(spec.name, "linucb");
  EXPECT_EQ(spec.label, text);
  EXPECT_EQ(spec.options, (OptionValues{{"alpha", "0.25"}, {"users", "each"}}));
}

TEST(Policies, MalformedTextIsRefused) {
  const auto refused = [](const std::string& text, const std::string& words) {
    expect_error(ErrorKind::kUsage, words, [&] { parse_policy(text); });
  };
  refused("", "no name");
  refused(":alpha=1", "no name");
  refused("linucb:", "policy \"linucb:\": \"\" is no option; expected name or name:option=value");
  refused("linucb:alpha", "\"alpha\" is no option");
  refused("linucb:=1", "\"=1\" is no option");
  refused("linucb:alpha=1:", "\"\" is no option");
  refused("linucb::alpha=1", "\"\" is no option");
  refused("linucb:alpha=1:alpha=2", "option alpha is given twice");
  refused("linucb:alpha=1:alpha=1", "option alpha is given twice");
  refused("linucb:alpha=", "policy linucb: option alpha: expected a number in");
  refused("linucb:alpha=1=2", "got \"1=2\"");
  refused("linucb:alpha=-1", "got \"-1\"");
  refused("linucb:beta=1", "expected one of the options lambda, alpha, users");
  refused("random:alpha=1", "policy random: option alpha: expected no options");
  refused("mcnb:gamma=1.5", "policy mcnb: option gamma");
  refused("neuucb-one:width=0", "policy neuucb-one: option width");
}

TEST(Policies, AnUnknownNameIsRefusedWithTheListOfNames) {
  std::string known;
  for (const PolicyHelp& help : policy_help()) {
    known += (known.empty() ? "expected one of " : ", ") + help.name;
  }
  for (const char* text : {"lin", "LinUCB", "linucb ", "random,linucb"}) {
    expect_error(ErrorKind::kUsage, known, [&] { parse_policy(text); });
  }
  ThreadPool threads(1);
  expect_error(ErrorKind::kUsage, "policy \"clob\": expected one of",
               [&] { make_policy({.name = "clob"}, cases::setup_of({}, threads)); });
}

TEST(Policies, HelpListsEveryPolicyWithItsOptions) {
  std::vector<std::string> names;
  for (const PolicyHelp& help : policy_help()) {
    names.push_back(help.name);
    EXPECT_FALSE(help.help.empty()) << help.name;
    for (const OptionHelp& option : help.options) {
      EXPECT_FALSE(option.help.empty()) << help.name << " " << option.name;
      EXPECT_FALSE(option.expected.empty()) << help.name << " " << option.name;
      // The default value of an option is a valid value.
      EXPECT_NO_THROW(parse_policy(help.name + ":" + option.name + "=" + option.standard));
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_TRUE(std::ranges::adjacent_find(names) == names.end());
}

TEST(Policies, OptionsAreJudgedWhenAPolicyIsMadeToo) {
  ThreadPool threads(1);
  expect_error(ErrorKind::kUsage, "policy linucb: option lambda", [&] {
    make_policy({.name = "linucb", .options = {{"lambda", "0"}}}, cases::setup_of({}, threads));
  });
}

// ---- what every policy does

TEST(Policies, SaveAndLoadInTheMiddleChangesNothing) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(2);
    const auto through = make(text, world, threads);
    Session whole(world, Arrival::kLate);
    whole.start(*through);
    whole.play(*through, 0, 130);

    auto broken = make(text, world, threads);
    Session parts(world, Arrival::kLate);
    parts.start(*broken);
    for (const auto& [from, to] : {std::pair{0, 7}, {7, 61}, {61, 130}}) {
      parts.play(*broken, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
      const std::string state = cases::saved(*broken);
      broken = make(text, world, threads);
      cases::load(*broken, state);
      EXPECT_TRUE(cases::saved(*broken) == state);
    }
    EXPECT_EQ(parts.choices(), whole.choices());
    EXPECT_TRUE(cases::same_bits(parts.values(), whole.values()));
    EXPECT_TRUE(cases::saved(*broken) == cases::saved(*through));
    EXPECT_EQ(broken->steps().training, through->steps().training);
  });
}

TEST(Policies, GiveTheSameOnAnyNumberOfThreads) {
  for_every_policy([](const std::string& text, const World& world) {
    std::string expected;
    std::vector<double> expected_values;
    for (const std::size_t count : {1U, 2U, 8U}) {
      ThreadPool threads(count);
      const auto policy = make(text, world, threads);
      Session session(world, Arrival::kAtOnce);
      session.start(*policy);
      session.play(*policy, 0, 60);
      if (count == 1) {
        expected = cases::saved(*policy);
        expected_values = session.values();
      }
      EXPECT_TRUE(cases::saved(*policy) == expected) << count << " threads";
      EXPECT_TRUE(cases::same_bits(session.values(), expected_values)) << count << " threads";
    }
  });
}

TEST(Policies, LearnFromLateAndShuffledFeedback) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(2);
    const auto policy = make(text, world, threads);
    Session session(world, Arrival::kLate);  // no start data, as in a service
    session.play(*policy, 0, 200);
    for (const double value : session.values()) {
      ASSERT_TRUE(std::isfinite(value));
    }
  });
}

TEST(Policies, AskingForScoresChangesNoChoice) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(2);
    const auto plain = make(text, world, threads);
    const auto looked_at = make(text, world, threads);
    Session undisturbed(world, Arrival::kAtOnce);
    Session disturbed(world, Arrival::kAtOnce);
    for (std::uint64_t id = 0; id < 30; ++id) {
      undisturbed.play(*plain, id, id + 1);
      disturbed.play(*looked_at, id, id + 1);
      const OwnRound own = cases::draw_round(world, 1000 + id);
      const std::vector<Score> scores = looked_at->scores(own.round);
      EXPECT_EQ(looked_at->choose(own.round), highest(scores));
      EXPECT_EQ(looked_at->choose(own.round), highest(scores));
      looked_at->cluster(own.round.arms[0]);
      for (const Score& score : scores) {
        EXPECT_NEAR(score.value, cases::sum_of(score), 1e-6);
        EXPECT_EQ(cases::part_names(score), cases::part_names(scores[0]));
      }
    }
    EXPECT_EQ(disturbed.choices(), undisturbed.choices());
    EXPECT_TRUE(cases::same_bits(disturbed.values(), undisturbed.values()));
  });
}

TEST(Policies, RefuseWhatIsWrongBeforeAnythingChanges) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(1);
    const auto policy = make(text, world, threads);
    Session session(world, Arrival::kAtOnce);
    session.play(*policy, 0, 5);
    const std::string before = cases::saved(*policy);
    const OwnRound good = cases::draw_round(world, 6);
    const auto refused = [&](const std::string& words, const Round& round) {
      expect_error(ErrorKind::kInput, words, [&] { policy->choose(round); });
      expect_error(ErrorKind::kInput, words, [&] { policy->scores(round); });
    };
    const auto refused_arm = [&](const std::string& words, const Arm& arm, float reward) {
      expect_error(ErrorKind::kInput, words, [&] { policy->learn(RoundId{6}, arm, reward); });
      expect_error(ErrorKind::kInput, words, [&] {
        policy->start(arm.user, {arm.features, reward});
      });
    };
    Round bad = good.round;
    bad.arms.clear();
    refused("round 6: expected 1 to 10000 arms, got 0", bad);
    bad = good.round;
    bad.arms[1].index = ArmIndex{0};
    refused("round 6, arm 1: expected the index 1, got 0", bad);
    bad = good.round;
    bad.arms[1].user = UserId{3};
    refused("round 6, arm 1: user 3 is unknown", bad);
    refused_arm("user 3 is unknown, there are 3 users", bad.arms[1], 1.0F);
    bad = good.round;
    bad.arms[2].features.offset = world.inputs() - 1;
    refused("round 6, arm 2:", bad);
    refused_arm("do not fit", bad.arms[2], 1.0F);
    bad = good.round;
    std::vector<float> values = good.features[0];
    values[1] = std::numeric_limits<float>::quiet_NaN();
    bad.arms[0].features.values = values;
    refused("round 6, arm 0: feature 1 is nan", bad);
    refused_arm("feature 1 is nan", bad.arms[0], 1.0F);
    refused_arm("the reward is inf", good.round.arms[0], std::numeric_limits<float>::infinity());
    refused_arm("the reward is 3e+38, expected a number from -1000000", good.round.arms[0], 3e38F);
    refused_arm("the reward is -1000001", good.round.arms[0], -1'000'001.0F);
    EXPECT_TRUE(cases::saved(*policy) == before);
  });
}

// Rewards and features that make networks overflow. A refused call changes nothing, except that a
// training is undone, and the policy can always be saved. Steps of training=online are damped.
TEST(Policies, StayFiniteWhateverTheyLearn) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(1);
    const auto policy = make(text, world, threads);
    int refusals = 0;
    for (std::uint64_t id = 0; id < 25; ++id) {
      OwnRound own = cases::draw_round(world, id);
      for (float& value : own.features[0]) {
        value *= 1e4F;
      }
      const std::string before = cases::saved(*policy);
      try {
        policy->learn(own.round.id, own.round.arms[0], id % 2 == 0 ? kLargestReward : 0.0F);
      } catch (const Error& error) {
        ++refusals;
        EXPECT_EQ(error.kind(), ErrorKind::kInput);
        const std::string what = error.what();
        EXPECT_TRUE(cases::saved(*policy) == before || what.find("training") != std::string::npos)
            << what;
      }
      cases::load(*make(text, world, threads), cases::saved(*policy));
    }
    if (text.find("training=online") != std::string::npos) {
      EXPECT_EQ(refusals, 0) << "steps are damped";
    }
  });
}

TEST(Policies, TakeNewUsersAtAnyTime) {
  for_every_policy([](const std::string& text, World world) {
    ThreadPool threads(1);
    const auto policy = make(text, world, threads);
    EXPECT_EQ(policy->user_count(), 3U);
    Session few(world, Arrival::kAtOnce);
    few.play(*policy, 0, 20);
    policy->add_users(2);
    EXPECT_EQ(policy->user_count(), 5U);
    world.users = 5;
    Session more(world, Arrival::kAtOnce);
    more.play(*policy, 20, 40);
    World smaller = world;
    smaller.users = 3;
    const auto copy = make(text, smaller, threads);
    cases::load(*copy, cases::saved(*policy));
    EXPECT_EQ(copy->user_count(), 5U);
    Session rest(world, Arrival::kAtOnce);
    Session copied(world, Arrival::kAtOnce);
    rest.play(*policy, 40, 60);
    copied.play(*copy, 40, 60);
    EXPECT_TRUE(cases::same_bits(rest.values(), copied.values()));
    EXPECT_GT(policy->memory_bytes(), 0U);
  });
}

TEST(Policies, RefuseAStateThatIsCutShort) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(1);
    const auto policy = make(text, world, threads);
    Session session(world, Arrival::kAtOnce);
    session.play(*policy, 0, 12);
    const std::string state = cases::saved(*policy);
    for (std::size_t length = 0; length < state.size(); length += 1 + state.size() / 50) {
      expect_error(ErrorKind::kCorrupt, "state",
                   [&] { cases::load(*make(text, world, threads), state.substr(0, length)); });
    }
  });
}

TEST(Policies, ABatchReturnsWhatItRefusedAndWhy) {
  for_every_policy([](const std::string& text, const World& world) {
    ThreadPool threads(1);
    const auto policy = make(text, world, threads);
    const auto expected = make(text, world, threads);
    const OwnRound own = cases::draw_round(world, 0);
    const RewardedArm good{own.round.id, own.round.arms[0], 1.0F};
    RewardedArm unknown = good;
    unknown.arm.user = UserId{3};
    RewardedArm infinite = good;
    infinite.reward = std::numeric_limits<float>::infinity();
    const std::vector<Refusal> refused =
        policy->learn_all(std::vector{unknown, good, good, infinite});
    ASSERT_EQ(refused.size(), 2U);
    EXPECT_EQ(refused[0].index, 0U);
    EXPECT_NE(std::string(refused[0].why.what()).find("user 3 is unknown"), std::string::npos);
    EXPECT_EQ(refused[1].index, 3U);
    EXPECT_NE(std::string(refused[1].why.what()).find("the reward is inf"), std::string::npos);
    expected->learn(good.round, good.arm, good.reward);
    expected->learn(good.round, good.arm, good.reward);
    EXPECT_TRUE(cases::saved(*policy) == cases::saved(*expected));
  });
}

// The service and Python report the parts by their names, so published names do not change.
TEST(Policies, NameThePartsOfTheirScores) {
  using Names = std::vector<std::string>;
  const Names drawn{"draw"};
  const Names bounded{"uncertainty"};
  const std::map<std::string, Names> published = {
      {"club", bounded},          {"cofiba", bounded},        {"epsilon-greedy", drawn},
      {"kernelucb", bounded},     {"linucb", bounded},        {"locb", bounded},
      {"mcnb", {"meta", "user"}}, {"neural-linear", bounded}, {"neuralts", drawn},
      {"neuucb-ind", bounded},    {"neuucb-one", bounded},    {"random", drawn},
      {"sclub", bounded}};
  for_every_policy([&](const std::string& text, const World& world) {
    ThreadPool threads(1);
    const OwnRound own = cases::draw_round(world, 0);
    const Names names = cases::part_names(make(text, world, threads)->scores(own.round).front());
    EXPECT_FALSE(names.empty());
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    if (const auto found = published.find(parse_policy(text).name); found != published.end()) {
      EXPECT_EQ(names, found->second);
    }
  });
}

// Rewards here are below zero half of the time, so that estimates are too.
TEST(Policies, WithNonnegativeAnEstimateBelowZeroCountsAsZero) {
  std::size_t with_option = 0;
  for_every_policy([&](const std::string& text, const World& world) {
    if (!resolved_options(parse_policy(text)).contains("nonnegative")) {
      return;
    }
    ++with_option;
    ThreadPool threads(1);
    const std::unique_ptr<Policy> plain = make(text, world, threads);
    const std::unique_ptr<Policy> floored = make(text + ":nonnegative=yes", world, threads);
    std::size_t below = 0;
    for (std::uint64_t id = 0; id < 60; ++id) {
      cases::load(*plain, cases::saved(*floored));
      const OwnRound own = cases::draw_round(world, id);
      const std::vector<Score> expected = plain->scores(own.round);
      const std::vector<Score> found = floored->scores(own.round);
      for (std::size_t i = 0; i < world.arms; ++i) {
        below += expected[i].estimate < 0.0 ? 1 : 0;
        ASSERT_EQ(found[i].estimate, std::max(expected[i].estimate, 0.0));
        ASSERT_EQ(found[i].value, cases::sum_of(found[i].estimate, expected[i].parts()));
      }
      const ArmIndex choice = floored->choose(own.round);
      ASSERT_EQ(index(choice), index(highest(found)));
      floored->learn(own.round.id, own.arm(choice), own.rewards[index(choice)] - 0.5F);
    }
    EXPECT_GT(below, 10U);
  });
  EXPECT_TRUE(with_option > 0 || cases::every_policy().size() == 1);
}

}  // namespace
}  // namespace mcnb::policies_test
