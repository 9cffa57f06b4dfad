// Policies that learn from logs.

#include "mcnb/evaluate/log_training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mcnb/evaluate/policies/policy_rounds.h"
#include "tests/bandit/every_policy.h"
#include "tests/evaluate/synthetic_log.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace mcnb::training_test {
namespace {

using cases::SyntheticWorld;

// Rounds of two users, of which some are excluded or have no reward.
std::vector<LoggedRound> log_of_users(std::uint64_t seed, std::uint64_t count) {
  std::vector<LoggedRound> rounds = cases::synthetic_log({}, seed, count);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    rounds[i].user = i % 3 == 0 ? "ann" : "bob";
    rounds[i].excluded = i % 10 == 4;
    if (i % 10 == 7) {
      rounds[i].reward.reset();
    }
  }
  return rounds;
}

ReadRounds reader_of(const std::vector<LoggedRound>& rounds) {
  return [&rounds](bool, const VisitRound& visit) {
    for (const LoggedRound& round : rounds) {
      visit(round);
    }
  };
}

bool always(const TrainingCounts&) { return true; }

std::string trained_bytes(const TemporaryFolder& folder, const std::vector<LoggedRound>& rounds,
                          const std::string& policy, int passes, std::size_t thread_count = 1) {
  ThreadPool threads(thread_count);
  LogTraining training({.policy = parse_policy(policy), .dimension = 16, .weights = {}}, threads);
  for (int pass = 0; pass < passes; ++pass) {
    EXPECT_TRUE(training.pass(reader_of(rounds), always));
  }
  training.save(folder / "state");
  return file_contents(folder / "state");
}

TEST(Training, EveryPolicyLearnsALog) {
  const TemporaryFolder folder;
  const std::vector<LoggedRound> rounds = log_of_users(1, 60);
  for (const std::string& policy : cases::every_policy()) {
    // A log has no features of users.
    if (policy.find("user_features") == std::string::npos && !policy.starts_with("neuau")) {
      EXPECT_FALSE(trained_bytes(folder, rounds, policy, 2).empty()) << policy;
      ThreadPool threads(1);
      const SavedPolicy saved = load_saved_policy(folder / "state", threads);
      EXPECT_EQ(saved.memory.users, (std::vector<std::string>{"ann", "bob"}));
      EXPECT_EQ(saved.policy->user_count(), 2U);
    }
  }
}

// The same rewards, taught by hand.
TEST(Training, LearnsEveryRewardOnceInAPass) {
  const std::vector<LoggedRound> rounds = log_of_users(2, 200);
  ThreadPool threads(1);
  const PolicySpec spec = parse_policy("linucb:users=each");
  LogTraining training({.policy = spec, .dimension = 16, .seed = 5, .weights = {}}, threads);
  const auto twin = make_policy(
      spec, {.inputs = 16, .users = 1, .seed = 5, .threads = &threads, .user_features = {}});
  twin->add_users(1);
  RoundFeatures features(16);
  std::uint64_t learned = 0;
  for (std::uint64_t i = 0; i < 2 * rounds.size(); ++i) {
    const LoggedRound& round = rounds[i % rounds.size()];
    if (!round.excluded && round.reward) {
      const std::span<const float> all = features.of(round);
      twin->learn(RoundId{i},
                  {.index = ArmIndex{round.chosen},
                   .user = UserId{round.user == "ann" ? 0U : 1U},
                   .features = {all.subspan(round.chosen * std::size_t{16}, 16)}},
                  static_cast<float>(*round.reward));
      ++learned;
    }
  }
  const TemporaryFolder folder;
  EXPECT_TRUE(training.pass(reader_of(rounds), always));
  EXPECT_TRUE(training.pass(reader_of(rounds), always));
  training.save(folder / "state");
  const SavedPolicy saved = load_saved_policy(folder / "state", threads);
  EXPECT_TRUE(cases::saved(*saved.policy) == cases::saved(*twin));
  EXPECT_EQ(training.counts().rounds, learned);
  EXPECT_EQ(training.counts().lessons, learned);
  EXPECT_EQ(training.counts().excluded, 40U);
  EXPECT_EQ(training.counts().unrewarded, 40U);
}

TEST(Training, GoesOnFromASavedStateWithTheSameBits) {
  const TemporaryFolder folder;
  const std::vector<LoggedRound> rounds = log_of_users(3, 80);
  for (const std::string policy : {"linucb", "mcnb:width=8", "neuralts:width=8"}) {
    const std::string twice = trained_bytes(folder, rounds, policy, 2);
    EXPECT_EQ(trained_bytes(folder, rounds, policy, 2, 8), twice) << "threads, " << policy;
    trained_bytes(folder, rounds, policy, 1);
    ThreadPool threads(1);
    LogTraining more(load_saved_policy(folder / "state", threads), {}, threads);
    EXPECT_TRUE(more.pass(reader_of(rounds), always));
    more.save(folder / "state");
    EXPECT_EQ(file_contents(folder / "state"), twice) << policy;
  }
}

TEST(Training, EndsWhenAsked) {
  const std::vector<LoggedRound> rounds = log_of_users(4, 100);
  ThreadPool threads(1);
  LogTraining training({.policy = parse_policy("random"), .dimension = 16, .weights = {}}, threads);
  EXPECT_FALSE(training.pass(reader_of(rounds),
                             [](const TrainingCounts& counts) { return counts.rounds < 20; }));
  EXPECT_EQ(training.counts().rounds, 20U);
}

// Weights make every action count as often as in a uniform log.
TEST(Training, WeightsUndoWhatTheLogPrefers) {
  const SyntheticWorld world{.epsilon = 0.4};
  ThreadPool threads(1);
  const auto policy = make_policy(
      parse_policy("random"), {.inputs = 16, .users = 1, .threads = &threads, .user_features = {}});
  LogUsers users;
  RoundFeatures features(16);
  std::map<std::uint32_t, double> lessons;
  constexpr std::uint64_t kRounds = 8000;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const LoggedRound round = world.round(9, i);
    const RoundView view{i, round, features.of(round)};
    const auto count = static_cast<double>(
        learn_round(*policy, users, view, {.importance = true, .most = 100.0}, 1));
    const double weight = 0.25 / round.probability;
    EXPECT_LT(std::abs(count - weight), 1.0);  // a whole number beside the weight
    lessons[round.chosen] += count;
    EXPECT_EQ(learn_round(*policy, users, view, {}, 1), 1U);
    EXPECT_LE(learn_round(*policy, users, view, {.importance = true, .most = 1.0}, 1), 1U);
  }
  for (const auto& [action, count] : lessons) {
    EXPECT_NEAR(count / kRounds, 0.25, 0.03) << action;
  }
}

TEST(Training, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  const PolicySpec spec = parse_policy("linucb");
  std::vector<LoggedRound> rounds = log_of_users(5, 10);
  LogTraining longer({.policy = spec, .dimension = 32, .weights = {}}, threads);
  longer.pass(reader_of(rounds), always);
  longer.save(folder / "state");
  for (LoggedRound& round : rounds) {
    for (RoundAction& action : round.actions) {
      action.features = "[1,0]";
    }
  }
  LogTraining other(load_saved_policy(folder / "state", threads), {}, threads);
  expect_error(ErrorKind::kInput, "the policy takes 32 numbers, the log has 2",
               [&] { other.pass(reader_of(rounds), always); });
  for (LoggedRound& round : rounds) {
    round.reward.reset();
  }
  LogTraining none({.policy = spec, .weights = {}}, threads);
  expect_error(ErrorKind::kInput, "expected a log with rewards, found none (1 rounds are excluded",
               [&] { none.pass(reader_of(rounds), always); });
  const PolicySetup setup{.inputs = 16, .users = 3, .threads = &threads, .user_features = {}};
  save_policy_file(folder / "nameless", spec, setup, *make_policy(spec, setup));
  expect_error(ErrorKind::kUsage, "3 users without names", [&] {
    const LogTraining nameless(load_saved_policy(folder / "nameless", threads), {}, threads);
  });
}

// A saved policy finds its users by their names and takes strangers as new users.
TEST(Training, ItsStateIsAPolicyToEvaluate) {
  const TemporaryFolder folder;
  const std::vector<LoggedRound> rounds = log_of_users(6, 300);
  trained_bytes(folder, rounds, "linucb:users=each", 1);
  ThreadPool threads(1);
  const SavedPolicy saved = load_saved_policy(folder / "state", threads);
  const auto target =
      make_target_policy("state=" + (folder / "state").string() + ":greedy", threads);
  RoundFeatures features(16);
  for (std::size_t i = 0; i < 40; ++i) {
    LoggedRound round = rounds[i];
    round.user = i < 20 ? "bob" : "carl";
    const RoundView view{i, round, features.of(round)};
    if (i == 20) {
      saved.policy->add_users(1);
    }
    const EligibleRound eligible = eligible_round(view, UserId{i < 20 ? 1U : 2U});
    std::vector<double> found(4);
    target->probabilities(view, found);
    std::vector<Score> scores = saved.policy->scores(eligible.round);
    const auto best = std::ranges::max_element(scores, {}, &Score::estimate);
    EXPECT_EQ(found[static_cast<std::size_t>(best - scores.begin())], 1.0);
  }
}

}  // namespace
}  // namespace mcnb::training_test
