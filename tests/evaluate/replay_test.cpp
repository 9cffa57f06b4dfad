// Policies on logs: fixed ones do what their names say, learning ones learn what they should.

#include <gtest/gtest.h>

#include <cmath>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/evaluate/estimate/round_features.h"
#include "mcnb/evaluate/policies/learning_policy.h"
#include "mcnb/logs/json_features.h"
#include "tests/evaluate/synthetic_log.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace mcnb::replay_test {
namespace {

using cases::synthetic_log;
using cases::SyntheticWorld;

std::vector<double> probabilities_of(const std::string& name, const LoggedRound& round,
                                     std::span<const float> features = {}) {
  ThreadPool threads(1);
  std::vector<double> found(round.actions.size(), -1.0);
  make_target_policy(name, threads)->probabilities({0, round, features}, found);
  return found;
}

TEST(TargetPolicies, DoWhatTheirNamesSay) {
  LoggedRound round;
  round.actions = {{"x", ""}, {"y", ""}, {"z", ""}, {"w", ""}};
  round.eligible = {false, true, true, true};
  using List = std::vector<double>;
  EXPECT_EQ(probabilities_of("random", round), (List{0, 1.0 / 3, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(probabilities_of("first", round), (List{0, 1, 0, 0}));
  EXPECT_EQ(probabilities_of("action=z", round), (List{0, 0, 1, 0}));
  EXPECT_EQ(probabilities_of("action=x", round), (List{0, 1.0 / 3, 1.0 / 3, 1.0 / 3}));
  for (RoundAction& action : round.actions) {
    action.id.clear();
  }
  EXPECT_EQ(probabilities_of("action=3", round), (List{0, 0, 0, 1}));
  ThreadPool threads(1);
  for (const char* name : {"best", "action=", "state=", ""}) {
    expect_error(ErrorKind::kUsage, "expected random, first, action=ID, state=FILE",
                 [&] { make_target_policy(name, threads); });
  }
}

TEST(TargetPolicies, CanChooseAsOftenAsAnotherLog) {
  const TemporaryFolder folder;
  put_file(folder / "log.csv",
           "action,probability,reward,slot\nx,1,0,0\nx,1,0,0\ny,1,0,0\nz,1,0,0\nz,1,0,1\n");
  const std::string name = "frequency=" + std::string(folder / "log.csv");
  LoggedRound round;
  round.actions = {{"x", ""}, {"y", ""}, {"w", ""}};
  using List = std::vector<double>;
  EXPECT_EQ(probabilities_of(name, round), (List{2.0 / 3.0, 1.0 / 3.0, 0.0}));
  round.eligible = {false, true, true};
  EXPECT_EQ(probabilities_of(name, round), (List{0.0, 1.0, 0.0}));
  round.slot = 1;
  EXPECT_EQ(probabilities_of(name, round), (List{0.0, 0.5, 0.5}));
}

TEST(TargetPolicies, ASavedPolicyChoosesAsBefore) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  const PolicySpec spec = parse_policy("linucb:alpha=0.3");
  const PolicySetup setup{.inputs = 16, .users = 2, .threads = &threads, .user_features = {}};
  const std::unique_ptr<Policy> policy = make_policy(spec, setup);
  const std::vector<LoggedRound> rounds = synthetic_log({}, 1, 200);
  RoundFeatures features(16);
  for (const LoggedRound& round : rounds) {
    const std::span<const float> all = features.of(round);
    policy->learn(
        RoundId{1},
        {.index = ArmIndex{0}, .user = UserId{1}, .features = {all.subspan(round.chosen * 16, 16)}},
        static_cast<float>(*round.reward));
  }
  const std::string path = folder / "policy";
  save_policy_file(path, spec, setup, *policy);
  const SavedPolicy saved = load_saved_policy(path, threads);
  EXPECT_EQ(saved.spec.name, "linucb");
  EXPECT_EQ(saved.setup.inputs, 16U);
  for (LoggedRound round : rounds) {
    round.user = "1";
    const std::span<const float> all = features.of(round);
    Round plain;
    for (std::uint32_t i = 0; i < 4; ++i) {
      plain.arms.push_back({.index = ArmIndex{i},
                            .user = UserId{1},
                            .features = {all.subspan(i * std::size_t{16}, 16)}});
    }
    const std::size_t best = index(policy->choose(plain));
    const std::vector<double> greedy = probabilities_of("state=" + path, round, all);
    EXPECT_EQ(greedy[best], 1.0);
    const std::vector<double> exploring =
        probabilities_of("state=" + path + ":epsilon=0.2", round, all);
    EXPECT_NEAR(exploring[best], 0.85, 1e-12);
    EXPECT_NEAR(exploring[(best + 1) % 4], 0.05, 1e-12);
  }
  LoggedRound stranger = rounds.front();
  stranger.user = "7";
  expect_error(ErrorKind::kInput, "has the users 0 to 1",
               [&] { probabilities_of("state=" + path, stranger, features.of(stranger)); });
  RoundFeatures longer(32);
  expect_error(ErrorKind::kInput, "takes 16 features, the log has 32",
               [&] { probabilities_of("state=" + path, rounds[0], longer.of(rounds[0])); });
}

// A policy that does not learn earns the same, however the log was made; of a uniform log one round
// in four is kept.
TEST(LearningPolicies, EstimateTheValueOfRandomPlay) {
  for (const double epsilon : {1.0, 0.5}) {
    const SyntheticWorld world{.epsilon = epsilon};
    const double least = epsilon / 4.0;
    ThreadPool threads(1);
    RoundFeatures features(16);
    LearningPolicy replay(LearningPolicy::Method::kReplay, parse_policy("random"), least, 1,
                          threads);
    LearningPolicy progressive(LearningPolicy::Method::kProgressive, parse_policy("random"), least,
                               1, threads);
    for (std::uint64_t i = 0; i < 8000; ++i) {
      const LoggedRound round = world.round(3, i);
      const RoundView view{i, round, features.of(round)};
      replay.play(view);
      progressive.play(view);
    }
    EXPECT_EQ(replay.rounds(), 8000U);
    EXPECT_NEAR(static_cast<double>(replay.kept()) / 8000.0, least, 0.02);
    EXPECT_NEAR(replay.value(), world.value_of_random(), epsilon < 1.0 ? 0.06 : 0.04);
    EXPECT_NEAR(progressive.value(), world.value_of_random(), 0.06);
  }
}

// A policy that does not learn has one value, which both sequences hold.
TEST(LearningPolicies, HaveAConfidenceSequence) {
  const SyntheticWorld world{.epsilon = 0.5};
  ThreadPool threads(1);
  RoundFeatures features(16);
  for (const auto method :
       {LearningPolicy::Method::kReplay, LearningPolicy::Method::kProgressive}) {
    LearningPolicy learning(method, parse_policy("random"), 0.125, 1, threads);
    ConfidenceSequence plain(0.0, 1.0);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const LoggedRound round = world.round(5, i);
      learning.play({i, round, features.of(round)});
      if (method == LearningPolicy::Method::kReplay) {
        if (learning.kept() > kept) {
          plain.add(1.0, *round.reward);
        }
      } else {
        plain.add(learning.kept() > kept ? 1.0 / round.probability : 0.0, *round.reward);
      }
      kept = learning.kept();
    }
    const std::optional<Interval> found = learning.anytime();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->low, plain.interval().low);
    EXPECT_EQ(found->high, plain.interval().high);
    EXPECT_TRUE(found->contains(world.value_of_random()));
    EXPECT_LT(found->high - found->low, 0.5);
    LoggedRound last = world.round(5, 4000);
    last.reward = 2.0;
    learning.play({4000, last, features.of(last)});
    EXPECT_FALSE(learning.anytime().has_value());
  }
}

// The same policy, told by hand what each method lets it learn.
TEST(LearningPolicies, LearnWhatTheirMethodSays) {
  const SyntheticWorld world{.epsilon = 1.0};
  ThreadPool threads(1);
  for (const auto method :
       {LearningPolicy::Method::kReplay, LearningPolicy::Method::kProgressive}) {
    const PolicySpec spec = parse_policy("linucb");
    LearningPolicy learning(method, spec, 0.25, 1, threads);
    const std::unique_ptr<Policy> twin =
        make_policy(spec, {.inputs = 16, .users = 1, .threads = &threads, .user_features = {}});
    RoundFeatures features(16);
    double sum = 0.0;
    double count = 0.0;
    for (std::uint64_t i = 0; i < 600; ++i) {
      const LoggedRound logged = world.round(4, i);
      const std::span<const float> all = features.of(logged);
      Round round{.id = RoundId{i}, .arms = {}};
      for (std::uint32_t k = 0; k < 4; ++k) {
        round.arms.push_back(
            {.index = ArmIndex{k}, .features = {all.subspan(k * std::size_t{16}, 16)}});
      }
      const bool matches = index(twin->choose(round)) == logged.chosen;
      learning.play({i, logged, all});
      if (method == LearningPolicy::Method::kProgressive) {
        sum += matches ? 4.0 * *logged.reward : 0.0;
        count += 1.0;
        twin->learn(round.id, round.arms[logged.chosen], static_cast<float>(*logged.reward));
      } else if (matches) {
        sum += *logged.reward;
        count += 1.0;
        twin->learn(round.id, round.arms[logged.chosen], static_cast<float>(*logged.reward));
      }
    }
    EXPECT_NEAR(learning.value(), sum / count, 1e-12);
    EXPECT_GT(learning.value(), world.value_of_random() + 0.05);
  }
}

// The numbers of features, computed from their tokens by hand.
TEST(RoundFeatures, AreHashedAsTheServiceHashesThem) {
  LoggedRound round;
  round.context = R"({"day":"Monday","_id":"ignored"})";
  round.actions = {{"tea", R"({"hot":true,"price":2})"}, {"juice", ""}};
  RoundFeatures features(8);
  const std::span<const float> found = features.of(round);
  const std::vector<Token> context{text_token(path_below(kContextPath, "day"), "Monday")};
  const std::vector<std::vector<Token>> actions{
      {text_token(path_below(kActionPath, "hot"), "true"), {path_below(kActionPath, "price"), 2.0}},
      {text_token(path_below(kActionPath, "id"), "juice")}};
  std::vector<float> expected;
  for (const std::vector<Token>& action : actions) {
    std::vector<double> vector(8);
    add_tokens(action, vector);
    add_tokens(context, vector);
    add_pairs(context, action, vector);
    ASSERT_TRUE(append_unit(vector, expected));
  }
  EXPECT_EQ(std::vector<float>(found.begin(), found.end()), expected);
}

TEST(RoundFeatures, TakeUnitVectorsAsTheyAreAndRefuseOtherLengths) {
  LoggedRound round;
  round.actions = {{"a", "[0.6,0.8]"}, {"b", "[3,4]"}};
  RoundFeatures features(8);
  const std::span<const float> found = features.of(round);
  EXPECT_EQ(std::vector<float>(found.begin(), found.end()),
            (std::vector<float>{0.6F, 0.8F, 0.6F, 0.8F}));
  round.actions[1].features = "[1,2,3]";
  expect_error(ErrorKind::kInput, "features: expected 2 numbers, as before, found 3",
               [&] { features.of(round); });
  round.actions[1].features = R"([1,"x"])";
  expect_error(ErrorKind::kInput, "only numbers", [&] { features.of(round); });
}

}  // namespace
}  // namespace mcnb::replay_test
