// The log of a data folder has every decision with the reward that the model would have learned.

#include "mcnb/serve/store_log.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "mcnb/logs/timestamps.h"
#include "tests/evaluate/log_cases.h"
#include "tests/expect_error.h"
#include "tests/serve/running_engine.h"

namespace mcnb::store_log_test {
namespace {

constexpr std::int64_t kStart = 1'000'000;  // milliseconds

struct StoreRead {
  std::vector<LoggedRound> rounds;
  StoreLogReport report;
};

StoreRead read(const TemporaryFolder& folder, const StoreLogOptions& options = {}) {
  StoreRead found;
  found.report = read_store_log(folder.path(), options,
                                [&](const LoggedRound& round) { found.rounds.push_back(round); });
  return found;
}

ModelOptions model(Aggregation aggregation = Aggregation::kEarliest) {
  ModelOptions options = cases::small_model();
  options.waiting_seconds = 10.0;
  options.default_reward = 0.125;
  options.aggregation = aggregation;
  return options;
}

RankRequest request(std::uint64_t number, bool deferred = false) {
  RankRequest request = cases::request_of(number, "user-" + std::to_string(number % 3));
  request.deferred = deferred;
  request.eligible[number % 3] = number % 5 != 0;
  return request;
}

std::string event(std::uint64_t number) { return "event-" + std::to_string(number); }

void expect_round(const LoggedRound& round, const Decision& decision) {
  EXPECT_EQ(round.event, decision.event_id);
  EXPECT_EQ(round.user, decision.user_id);
  EXPECT_EQ(round.time, decision.time * 1000);
  EXPECT_EQ(round.chosen, decision.chosen);
  ASSERT_EQ(round.actions.size(), decision.actions.size());
  for (std::size_t i = 0; i < round.actions.size(); ++i) {
    EXPECT_EQ(round.actions[i].id, decision.actions[i].id);
    EXPECT_EQ(static_cast<float>(round.probabilities[i]), decision.actions[i].probability);
    EXPECT_EQ(round.is_eligible(i), decision.actions[i].eligible);
    std::string numbers = "[";
    for (std::size_t k = 0; k < 4; ++k) {
      numbers += (k == 0 ? "" : ",") + fmt::format("{}", decision.features[4 * i + k]);
    }
    EXPECT_EQ(round.actions[i].features, numbers + "]");
  }
}

TEST(StoreLog, HasEveryDecisionAsItWasMadeWhileTheServiceRuns) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path(), {}, kStart);
  running.create("m", model());
  std::vector<Decision> decisions;
  for (std::uint64_t i = 0; i < 20; ++i) {
    running.clock.set(kStart + static_cast<std::int64_t>(i) * 100);
    decisions.push_back(running.rank(request(i, i % 4 == 3))->decision);
    if (i % 2 == 0) {
      running.reward(event(i), 0.5F);
    }
  }
  // Rewarded or not, nothing counts before the waiting time is over.
  EXPECT_TRUE(read(folder).rounds.empty());
  EXPECT_EQ(read(folder).report.waiting, 20U);

  running.clock.set(kStart + 10'000 + 950);  // over for events 0 to 9
  running.rank(request(100));
  StoreRead found = read(folder);
  ASSERT_EQ(found.rounds.size(), 10U);
  EXPECT_EQ(found.report.waiting, 11U);
  EXPECT_EQ(found.report.model, "m");
  EXPECT_EQ(found.report.unactivated, 2U);  // events 3 and 7
  for (std::uint64_t i = 0; i < 10; ++i) {
    const LoggedRound& round = found.rounds[i];
    expect_round(round, decisions[i]);
    EXPECT_EQ(round.excluded, i % 4 == 3);
    EXPECT_EQ(round.default_reward, i % 2 == 1 && i % 4 != 3);
    EXPECT_EQ(round.reward.has_value(), i % 4 != 3);
    EXPECT_EQ(round.reward.value_or(0.0), i % 4 == 3 ? 0.0 : i % 2 == 0 ? 0.5 : 0.125);
  }
}

TEST(StoreLog, TakesRewardsByTheRulesOfTheModel) {
  struct Case {
    Aggregation aggregation;
    double expected;
  };
  for (const Case& one : {Case{Aggregation::kEarliest, 0.5}, Case{Aggregation::kAverage, 0.375},
                          Case{Aggregation::kSum, 0.75}, Case{Aggregation::kMin, 0.25},
                          Case{Aggregation::kMax, 0.5}}) {
    const TemporaryFolder folder;
    cases::RunningEngine running(folder.path(), {}, kStart);
    running.create("m", model(one.aggregation));
    running.rank(request(1));
    const auto give = [&](const char* id, float value) {
      const auto task = std::make_shared<RewardTask>();
      task->model = "m";
      task->reward = {event(1), id, 0, value};
      running.run(task);
    };
    give("a", 0.5F);
    give("a", 1.0F);  // again: does not count
    running.clock.set(kStart + 9'999);
    give("b", 0.25F);
    running.clock.set(kStart + 10'000);
    give("c", 1.0F);  // too late
    running.rank(request(2));
    const StoreRead found = read(folder);
    ASSERT_EQ(found.rounds.size(), 1U);
    EXPECT_EQ(found.rounds[0].reward, one.expected) << name_of(one.aggregation);
  }
}

TEST(StoreLog, LeavesOutForgottenUsersAndOtherTimes) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path(), {}, kStart);
  running.create("m", model());
  for (std::uint64_t i = 0; i < 9; ++i) {
    running.clock.set(kStart + static_cast<std::int64_t>(i) * 1000);
    running.rank(request(i));
  }
  running.forget("user-1");
  running.clock.set(kStart + 30'000);
  running.rank(request(50));
  const StoreRead found = read(folder);
  ASSERT_EQ(found.rounds.size(), 6U);
  for (const LoggedRound& round : found.rounds) {
    EXPECT_NE(round.user, "user-1");
  }
  const StoreRead part =
      read(folder, {.model = "m", .from = (kStart + 2000) * 1000, .to = (kStart + 6000) * 1000});
  ASSERT_EQ(part.rounds.size(), 3U);  // events 2, 3 and 5
  EXPECT_EQ(part.rounds[0].event, event(2));
  EXPECT_EQ(part.rounds[2].event, event(5));
}

// A client may take its time, but the service must be able to empty its WAL.
TEST(StoreLog, KeepsNobodyFromForgettingUsersWhileItIsRead) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path(), {}, kStart);
  running.create("m", model());
  for (std::uint64_t i = 0; i < 9; ++i) {
    ASSERT_FALSE(running.rank(request(i))->error.has_value());
  }
  running.clock.set(kStart + 20'000);
  running.rank(request(9));  // the waiting times of the others are over
  std::vector<std::string> users;
  const StoreLogReport report = read_store_log(folder.path(), {}, [&](const LoggedRound& round) {
    if (users.empty()) {
      const auto forgotten = running.forget("user-2");
      EXPECT_FALSE(forgotten->error.has_value()) << forgotten->error->message;
    }
    users.push_back(round.user);
  });
  EXPECT_EQ(std::ranges::count(users, "user-0"), 3);
  EXPECT_EQ(std::ranges::count(users, "user-2"), 0) << "what was erased meanwhile is left out";
  EXPECT_EQ(report.forgotten, 3U);
}

TEST(StoreLog, IsExportedAndReadBack) {
  const TemporaryFolder folder;
  {
    cases::RunningEngine running(folder.path(), {}, kStart);
    running.create("m", model());
    running.create("other", model());
    for (std::uint64_t i = 0; i < 12; ++i) {
      running.rank(request(i, i == 4));
      if (i % 3 != 0) {
        running.reward(event(i), static_cast<float>(i) / 16.0F);
      }
    }
    running.clock.set(kStart + 20'000);
    running.rank(request(50));
  }
  const std::map<std::string, std::string> before = cases::all_files(folder.path());
  const StoreRead found = read(folder, {.model = "m"});
  EXPECT_EQ(found.rounds.size(), 12U);
  EXPECT_EQ(cases::all_files(folder.path()), before);
  for (const LogFormat format : {LogFormat::kDsjson, LogFormat::kJsonLines, LogFormat::kCsv}) {
    std::vector<LoggedRound> rounds = cases::rounds_in(cases::written(format, found.rounds));
    if (format == LogFormat::kDsjson) {  // which says a cost even where there is no reward
      EXPECT_EQ(rounds[4].reward, 0.0);
      rounds[4].reward.reset();
      rounds[4].default_reward = false;
    }
    EXPECT_EQ(rounds, found.rounds);
  }
  expect_error(ErrorKind::kUsage, "has the models m, other: name one by --model",
               [&] { read(folder); });
  expect_error(ErrorKind::kUsage, "no model \"x\", only m, other",
               [&] { read(folder, {.model = "x"}); });
  EXPECT_TRUE(is_store(folder.path()));
  EXPECT_FALSE(is_store(folder / "snapshots"));
}

}  // namespace
}  // namespace mcnb::store_log_test
