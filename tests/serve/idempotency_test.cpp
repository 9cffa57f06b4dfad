// Within `idempotency_hours` an event is decided once and a reward is learned once, whatever the
// model still remembers and the log still holds.

#include <gtest/gtest.h>

#include "mcnb/serve/model/event_keys.h"
#include "mcnb/serve/server.h"
#include "tests/serve/running_engine.h"

namespace mcnb::idempotency_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

constexpr std::int64_t kBegin = 1'000'000;
constexpr std::int64_t kHour = 3'600'000;

// A model that remembers one event after its end.
ModelOptions forgetful_model() {
  ModelOptions options = small_model();
  options.remembered = 1;
  options.waiting_seconds = 10.0;
  return options;
}

RankRequest request_number(std::uint64_t number) {
  return request_of(number, "user-" + std::to_string(number % 5));
}

ErrorCode code_of(const TaskBase& task) {
  EXPECT_TRUE(task.error.has_value());
  return task.error ? task.error->code : ErrorCode::kInternal;
}

TEST(Idempotency, WhatTheModelNoLongerRemembersIsNeitherDecidedNorLearnedAgain) {
  const TemporaryFolder folder;
  std::string first;
  {
    RunningEngine running(folder.path());
    running.create("m", forgetful_model());
    first = encode_event(running.rank(request_number(0))->decision);
    running.reward("event-0", 1.0F);
    running.play(1, 20);
  }
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    RunningEngine running(folder.path());
    const ModelCounts before = running.report().counts;
    // The same request gets the same answer, another one a conflict.
    const auto again = running.rank(request_number(0));
    ASSERT_FALSE(again->error.has_value()) << again->error->message;
    EXPECT_TRUE(encode_event(again->decision) == first);
    RankRequest other = request_number(0);
    other.eligible[1] = false;
    EXPECT_EQ(code_of(*running.rank(other)), ErrorCode::kEventExists);
    // A reward that came is a duplicate, another one comes too late.
    EXPECT_EQ(running.reward("event-0", 1.0F)->outcome, RewardOutcome::kDuplicate);
    auto second = reward_task("event-0", 1.0F);
    second->reward.reward_id = "another";
    EXPECT_EQ(code_of(*running.run(second)), ErrorCode::kEventGone);
    EXPECT_EQ(second->error->status(), 410);
    EXPECT_EQ(code_of(*running.reward("no-event", 1.0F)), ErrorCode::kUnknownEvent);
    EXPECT_EQ(running.report().counts.decisions, before.decisions);
    EXPECT_EQ(running.report().counts.learned, before.learned);
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
}

TEST(Idempotency, IdsOutliveTheirRows) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.log_bytes = 1;
  options.trim_seconds = 0.01;
  {
    RunningEngine running(folder.path(), options);
    running.create("m", forgetful_model());
    running.play_together(0, 30);
    SqliteLogStore store = log_beside(folder.path());
    wait_until([&] { return first_position(store, 1) > 10; });
  }
  RunningEngine running(folder.path());
  const ModelCounts before = running.report().counts;
  const auto again = running.rank(request_number(0));
  EXPECT_EQ(code_of(*again), ErrorCode::kEventGone) << again->error->message;
  EXPECT_NE(again->error->message.find("erased"), std::string::npos);
  EXPECT_EQ(running.reward("event-0", 1.0F)->outcome, RewardOutcome::kDuplicate);
  EXPECT_EQ(running.report().counts.decisions, before.decisions);
  EXPECT_EQ(running.report().counts.learned, before.learned);
}

TEST(Idempotency, OlderIdsAreUnknownAndLeaveTheIndex) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.idempotency_hours = 2.0;
  options.trim_seconds = 0.01;
  options.doubt_seconds = 0.0;
  RunningEngine running(folder.path(), options);
  running.create("m", forgetful_model());
  running.play(0, 5);
  running.clock.set(kBegin + 2 * kHour - 1);
  EXPECT_FALSE(running.rank(request_number(0))->error.has_value());
  EXPECT_EQ(running.report().counts.decisions, 5U);
  running.clock.set(kBegin + 2 * kHour + 1);
  EXPECT_EQ(code_of(*running.reward("event-0", 1.0F)), ErrorCode::kUnknownEvent);
  EXPECT_FALSE(running.rank(request_number(0))->error.has_value());
  EXPECT_EQ(running.report().counts.decisions, 6U);
  // The new decision is known by its id, the old ones are gone from the disk.
  wait_until([&] { return ask_sql(folder.path(), "SELECT count(*) FROM event_ids") == 1; });
  EXPECT_TRUE(log_beside(folder.path()).verify_all().empty());
}

TEST(Idempotency, OfZeroHoursKeepsNoIds) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.idempotency_hours = 0.0;
  RunningEngine running(folder.path(), options);
  running.create("m", forgetful_model());
  running.play(0, 5);
  EXPECT_EQ(ask_sql(folder.path(), "SELECT count(*) FROM event_ids"), 0);
  EXPECT_EQ(code_of(*running.reward("event-0", 1.0F)), ErrorCode::kUnknownEvent);
}

// The event ends and is forgotten while its row is not yet committed.
TEST(Idempotency, AnEventOfTheSameBatchIsKnownBeforeItIsCommitted) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  host.recover();
  host.create("m", forgetful_model());
  for (std::uint64_t i = 0; i < 3; ++i) {
    const RankRequest request = request_number(i);
    ASSERT_TRUE(host.decide("m", {&request}, kBegin)[0].decision.has_value());
    EXPECT_EQ(host.reward("m", {request.event_id, "r", kBegin, 1.0F}), RewardOutcome::kLearned);
  }
  const RankRequest again = request_number(0);
  const auto answer = host.decide("m", {&again}, kBegin);
  ASSERT_TRUE(answer[0].error.has_value());
  EXPECT_EQ(answer[0].error->code, ErrorCode::kInProgress);
  EXPECT_EQ(host.reward("m", {again.event_id, "r", kBegin, 1.0F}), RewardOutcome::kDuplicate);
  storage->log().commit(host.take_batch());
  EXPECT_TRUE(host.decide("m", {&again}, kBegin)[0].decision.has_value());
}

TEST(Idempotency, AForgottenUsersIdsAreInNoFile) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", forgetful_model());
  running.play(0, 20);
  const std::uint64_t key = event_id_key("event-3", 1);
  // SQLite keeps numbers with the most significant byte first.
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(key >> shift);
  }
  const auto is_somewhere = [&] {
    for (const auto& [file, contents] : all_files(folder.path())) {
      if (contents.find(bytes) != std::string::npos) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(is_somewhere());
  ASSERT_FALSE(running.forget("user-3")->error.has_value());
  EXPECT_FALSE(is_somewhere());
  EXPECT_FALSE(log_beside(folder.path()).find_id(1, key).has_value());
  EXPECT_TRUE(log_beside(folder.path()).find_id(1, event_id_key("event-4", 1)).has_value());
  EXPECT_TRUE(log_beside(folder.path()).verify_all().empty());
}

TEST(Idempotency, AnEventIsFoundAndActivatedByItsIdAlone) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", forgetful_model());
  running.play(0, 10);
  const auto task = running.control([&](ControlTask&, ModelHost& host, std::int64_t time) {
    const auto found = host.look_up("m", "event-2");
    EXPECT_EQ(found.decision.event_id, "event-2");
    EXPECT_FALSE(found.waiting);
    host.activate("m", {"event-2", time});  // it was active all the time: nothing to do
  });
  EXPECT_FALSE(task->error.has_value()) << task->error->message;
}

}  // namespace
}  // namespace mcnb::idempotency_test
