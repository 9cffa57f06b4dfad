#include "mcnb/experiment/report/request_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "mcnb/base/error.h"
#include "tests/temporary_folder.h"

namespace mcnb::request_memory_test {
namespace {

constexpr const char* kPlan =
    "environments = [\"synthetic:users=8\", \"synthetic:users=9\"]\n"
    "policies = [\"linucb\", \"random\"]\nrounds = 20\n";

PlanRequest request_for(std::vector<std::string> environments) {
  return {.name = "mine.toml", .text = kPlan, .environments = std::move(environments)};
}

PlanRequest only_remembered(const CellStore& store) {
  const RememberedRequests found = remembered_requests(store);
  EXPECT_TRUE(found.unreadable.empty());
  EXPECT_EQ(found.all.size(), 1U);
  return found.all.empty() ? PlanRequest{} : found.all.front().request;
}

TEST(RequestMemory, GivesBackWhatWasKept) {
  const TemporaryFolder folder;
  const PlanRequest request{.name = "mine.toml",
                            .text = kPlan,
                            .environments = {"synthetic:users=7"},
                            .policies = {"random", "linucb:alpha=2"},
                            .settings = {{"items", "0"}},
                            .rounds = 30,
                            .seeds = 4,
                            .first_seed = 0,
                            .tune = true,
                            .command = "mcnb reproduce \"mine\"\n"};
  remember(CellStore(folder / "cells.sqlite", "a"), request);
  const PlanRequest found = only_remembered(CellStore(folder / "cells.sqlite", "b"));
  EXPECT_EQ(request_to_json(found), request_to_json(request));
  EXPECT_EQ(found.text, kPlan);
  EXPECT_EQ(found.first_seed, 0U);
  EXPECT_EQ(found.settings, request.settings);
  EXPECT_EQ(found.command, request.command);
}

TEST(RequestMemory, JoinsEnvironmentsOfRequestsThatDifferInNothingElse) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  remember(store, request_for({"synthetic:users=9"}));
  const PlanRequest both = remember(store, request_for({"synthetic:users=7"}));
  EXPECT_EQ(both.environments,
            (std::vector<std::string>{"synthetic:users=9", "synthetic:users=7"}));
  PlanRequest longer = request_for({"synthetic:users=9"});
  longer.rounds = 500;
  EXPECT_EQ(remember(store, longer).environments, longer.environments);
  EXPECT_EQ(only_remembered(store).rounds, 500U);
}

// Every program adds its own environment to what the others have kept by then.
TEST(RequestMemory, ProgramsAtTheSameTimeKeepTheEnvironmentsOfAll) {
  const TemporaryFolder folder;
  const CellStore first(folder / "cells.sqlite", "a");
  std::vector<std::thread> programs;
  for (int i = 0; i < 6; ++i) {
    programs.emplace_back([&, i] {
      const CellStore store(folder / "cells.sqlite", "a");
      remember(store, request_for({"synthetic:users=" + std::to_string(100 + i)}));
    });
  }
  for (std::thread& program : programs) {
    program.join();
  }
  const std::vector<std::string> kept = only_remembered(first).environments;
  EXPECT_EQ(kept.size(), 6U);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(std::ranges::count(kept, "synthetic:users=" + std::to_string(100 + i)), 1) << i;
  }
}

TEST(RequestMemory, ReadsRequestsFromBeforeTheJsonFormat) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  store.keep_text("plan mine items=0", std::string("mine.toml\nsynthetic:users=7\n\n30\n\n\n\n") +
                                           "items=0\n$ mcnb reproduce x\n# the plan\n" + kPlan);
  const PlanRequest old = only_remembered(store);
  EXPECT_EQ(old.environments, (std::vector<std::string>{"synthetic:users=7"}));
  EXPECT_TRUE(old.policies.empty());
  EXPECT_EQ(old.rounds, 30U);
  EXPECT_FALSE(old.seeds.has_value());
  EXPECT_FALSE(old.tune);
  EXPECT_EQ(old.settings, (OptionValues{{"items", "0"}}));
  EXPECT_EQ(old.command, "mcnb reproduce x");
  EXPECT_EQ(old.text, kPlan);
  // A new request of the same plan joins it and takes its section of the page.
  PlanRequest request = old;
  request.environments = {"synthetic:users=6"};
  request.command = "mcnb reproduce y";
  EXPECT_EQ(remember(store, request).environments.size(), 2U);
  EXPECT_EQ(only_remembered(store).command, "mcnb reproduce y");
}

TEST(RequestMemory, NamesWhatItCannotRead) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  store.keep_text("plan fig-s", "fig-s\n\n\n\n\n\n\n");  // from before plans' texts were kept
  store.keep_text("request broken", "{");
  store.keep_text("request newer", R"({"format": 2})");
  store.keep_text("ranks of something", "no request");
  remember(store, request_for({}));
  const RememberedRequests found = remembered_requests(store);
  ASSERT_EQ(found.all.size(), 1U);
  EXPECT_EQ(found.all[0].key, "mine");
  ASSERT_EQ(found.unreadable.size(), 3U);
  EXPECT_NE(found.unreadable[0].find("plan fig-s: kept by a version"), std::string::npos);
  EXPECT_NE(found.unreadable[1].find("request broken: "), std::string::npos);
  EXPECT_NE(found.unreadable[2].find("format 2"), std::string::npos);
  EXPECT_THROW(request_from_json("[]"), Error);
}

}  // namespace
}  // namespace mcnb::request_memory_test
