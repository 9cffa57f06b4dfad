#include "mcnb/bandit/policies.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>

#include "mcnb/base/option_codec.h"
#include "tests/bandit/policy_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::policies_test {
namespace {

using cases::Arrival;
using cases::OwnRound;
using cases::Session;
using cases::World;
using plain::expect_error;

// Small versions of all policies, with their variants, to test against the contract of policy.h.
std::vector<std::string> every_policy() {
  if (const char* only = std::getenv("MCNB_TEST_POLICY")) {
    return {only};
  }
  std::vector<std::string> all = {
      "club:alpha_2=0.2:lambda=0.1",
      "club:alpha_2=0.3:graph=random",
      "kernelucb:bandwidth=0.5:lambda=0.1:users=each:history_limit=10",
      "kernelucb:history_limit=25",
      "cofiba:alpha=0.05:item_groups=4",
      "cofiba:alpha=0.5",
      "epsilon-greedy:width=10:train_steps=40:epsilon=0.3:decay=0.01",
      "linucb:users=each:lambda=0.1:alpha=1",
      "linucb:users=one:alpha=0.5",
      "locb:seeds=2:gamma=2.5:lambda=0.1",
      "locb:alpha=1",
      "mcnb:width=10:depth=3:preset=algorithm",
      "mcnb:width=10:preset=algorithm",
      "mcnb:width=10:preset=experiments:history_limit=15",
      "neuau:width=10:train_steps=40",
      "neuau:width=6:matrix=diagonal:training=online",
      "neural-linear:width=10:train_steps=40:alpha_2=0.3",
      "neural-linear:width=10:train_steps=40:alpha_2=0.3:graph=random:history_limit=15",
      "neural-linear:width=6:depth=3:alpha_2=0.3:training=online",
      "neuralts:width=10:train_steps=40",
      "neuucb-ind:width=10:train_steps=2:matrix=full:history_limit=5",
      "neuucb-ind:width=10:train_steps=40",
      "neuucb-ind:width=6:depth=3:biases=yes:training=online",
      "neuucb-one:width=10:train_steps=40",
      "neuucb-one:width=10:train_steps=40:matrix=diagonal:history_limit=15",
      "neuucb-one:width=6:depth=3:biases=yes:training=online",
      "random",
      "sclub:alpha_w=0.4:lambda=0.1:alpha=1",
      "sclub:alpha_w=3:alpha_p=0.1",
  };
  std::set<std::string> met;
  for (const std::string& text : all) {
    met.insert(parse_policy(text).name);
  }
  for (const PolicyHelp& help : policy_help()) {
    if (met.count(help.name) == 0) {
      all.push_back(help.name);
    }
  }
  return all;
}

std::vector<World> every_world() { return {{}, {.features = 3, .blocks = true}}; }

// Calls test(policy's text, world) for every policy in every world.
template <class Test>
void for_every_policy(Test test) {
  for (const std::string& text : every_policy()) {
    for (const World& world : every_world()) {
      SCOPED_TRACE(text + (world.blocks ? ", blocks" : ", dense"));
      test(text, world);
    }
  }
}

std::unique_ptr<Policy> make(const std::string& text, const World& world, ThreadPool& threads) {
  return make_policy(parse_policy(text), cases::setup_of(world, threads));
}

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

TEST(Policies, TextThatIsNoPolicyIsRefused) {
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

TEST(Policies, AnUnknownOneIsRefusedWithThoseThereAre) {
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

TEST(Policies, HelpTellsOfAllAndTheirOptions) {
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

TEST(Policies, LookingChangesNoChoice) {
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

// ---- files

TEST(PolicyFiles, KeepAPolicyAndWhatItWasMadeWith) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  for_every_policy([&](const std::string& text, const World& world) {
    ThreadPool threads(2);
    const PolicySpec spec = parse_policy(text);
    const PolicySetup setup = cases::setup_of(world, threads);
    const auto policy = make_policy(spec, setup);
    Session session(world, Arrival::kAtOnce);
    session.play(*policy, 0, 30);
    policy->add_users(1);  // more than at the start
    save_policy_file(path, spec, setup, *policy);
    const auto copy = load_policy_file(path, spec, setup);
    EXPECT_TRUE(cases::saved(*copy) == cases::saved(*policy));
  });
}

TEST(PolicyFiles, AreRefusedWhereAnythingDiffers) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const PolicySetup setup = cases::setup_of({}, threads);
  const PolicySpec spec = parse_policy("linucb:alpha=0.5");
  save_policy_file(path, spec, setup, *make_policy(spec, setup));
  const auto refused = [&](const std::string& words, const std::string& text,
                           const PolicySetup& other) {
    expect_error(ErrorKind::kUsage, path + ": " + words,
                 [&] { load_policy_file(path, parse_policy(text), other); });
  };
  refused("policy: the file was saved with \"linucb\", asked for is \"random\"", "random", setup);
  refused("option alpha: the file was saved with \"0.5\", asked for is \"0.25\"",
          "linucb:alpha=0.25", setup);
  refused("option alpha: the file was saved with \"0.5\", asked for is \"", "linucb", setup);
  refused("option users: the file was saved with \"one\", asked for is \"each\"",
          "linucb:alpha=0.5:users=each", setup);
  PolicySetup other = setup;
  other.seed = 8;
  refused("seed: the file was saved with \"7\", asked for is \"8\"", spec.label, other);
  other = setup;
  other.inputs = 6;
  refused("inputs: the file was saved with \"5\", asked for is \"6\"", spec.label, other);
  other = setup;
  other.users = 2;
  refused("users at the start: the file was saved with \"3\", asked for is \"2\"", spec.label,
          other);
  EXPECT_NO_THROW(load_policy_file(path, spec, setup));
}

// Version 1 had another checksum of the users' features, so a load does not compare it.
TEST(PolicyFiles, OfVersion1AreRead) {
  const TemporaryFolder folder;
  const std::string path = (folder / "linucb.mcnb").string();
  ThreadPool threads(1);
  const std::vector<float> looks{1.0F, 0.0F, 0.5F};
  PolicySetup setup{.inputs = 2, .users = 3, .seed = 5, .threads = &threads};
  setup.user_features = looks;
  setup.user_feature_count = 1;
  const PolicySpec spec = parse_policy("linucb");
  const auto policy = make_policy(spec, setup);
  save_policy_file(path, spec, setup, *policy);
  OptionValues identity;
  try {
    load_state_file(path, {"policy", 2}, [&](StateReader& reader) {
      identity = read_options(reader);
      throw Error(ErrorKind::kUsage, "the rest is not needed");
    });
  } catch (const Error& error) {
    ASSERT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  }
  ASSERT_EQ(identity.count("what users look like"), 1U);
  identity["what users look like"] = "af63bd4c8601b7df";
  const auto rewrite = [&](std::uint32_t version) {
    save_state_file(path, {"policy", version}, [&](StateWriter& writer) {
      write_options(writer, identity);
      policy->save(writer);
    });
  };
  rewrite(1);
  EXPECT_NO_THROW(load_policy_file(path, spec, setup));
  rewrite(2);
  expect_error(ErrorKind::kUsage, "what users look like",
               [&] { load_policy_file(path, spec, setup); });
  identity["seed"] = "6";
  rewrite(1);
  expect_error(ErrorKind::kUsage, "seed", [&] { load_policy_file(path, spec, setup); });
}

TEST(PolicyFiles, ThatAreDamagedOrMissingAreRefused) {
  const TemporaryFolder folder;
  const std::string path = (folder / "policy.state").string();
  ThreadPool threads(1);
  const PolicySetup setup = cases::setup_of({}, threads);
  const PolicySpec spec = parse_policy("linucb");
  expect_error(ErrorKind::kSystem, path, [&] { load_policy_file(path, spec, setup); });
  save_policy_file(path, spec, setup, *make_policy(spec, setup));
  std::string contents = file_contents(path);
  put_file(path, contents.substr(0, contents.size() / 2));
  expect_error(ErrorKind::kCorrupt, path, [&] { load_policy_file(path, spec, setup); });
  contents[contents.size() / 2] = static_cast<char>(contents[contents.size() / 2] ^ 1);
  put_file(path, contents);
  expect_error(ErrorKind::kCorrupt, path, [&] { load_policy_file(path, spec, setup); });
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

TEST(Policies, NameThePartsOfTheirScores) {
  const World world;
  ThreadPool threads(1);
  const auto parts_of = [&](const std::string& text) {
    const OwnRound own = cases::draw_round(world, 0);
    return cases::part_names(make(text, world, threads)->scores(own.round).front());
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(parts_of("mcnb"), (Names{"meta", "user"}));
  EXPECT_EQ(parts_of("mcnb:keep_arms=1"), (Names{"meta", "user"}));
  for (const char* text : {"epsilon-greedy", "neuralts", "random"}) {
    EXPECT_EQ(parts_of(text), Names{"draw"}) << text;
  }
  for (const char* text : {"club", "cofiba", "kernelucb", "linucb:users=each", "linucb:users=one",
                           "locb", "neural-linear", "neuucb-ind", "neuucb-one", "sclub"}) {
    EXPECT_EQ(parts_of(text), Names{"uncertainty"}) << text;
  }
}

// Rewards here are below zero half of the time, so that estimates are too.
TEST(Policies, AnEstimateBelowZeroCountsAsZeroWhereItIsAskedFor) {
  for (const std::string text :
       {"mcnb:width=10", "mcnb:width=10:preset=experiments", "neuau:width=10:train_steps=40",
        "neural-linear:width=10:train_steps=40", "neuralts:width=10:train_steps=40",
        "neuucb-ind:width=10:train_steps=40", "neuucb-one:width=10:train_steps=40"}) {
    for (const World& world : every_world()) {
      SCOPED_TRACE(text + (world.blocks ? ", blocks" : ", dense"));
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
    }
  }
}

}  // namespace
}  // namespace mcnb::policies_test
