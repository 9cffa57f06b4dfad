// What the engine keeps, repairs and erases: damage, restarts, trimming, and batches in which one
// request must not affect another.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <new>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/serve/server.h"
#include "mcnb/storage/sqlite.h"
#include "tests/serve/running_engine.h"

namespace mcnb::recovery_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

TEST(Recovery, NumbersThatAreNotFiniteHarmNobodyElse) {
  for (const ModelMode mode : {ModelMode::kOnline, ModelMode::kLogging}) {
    const TemporaryFolder folder;
    {
      RunningEngine running(folder.path());
      ModelOptions options = small_model();
      options.mode = mode;
      running.create("m", options);
      RankRequest bad = request_of(2, "bob");
      bad.features[1] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<std::shared_ptr<RankTask>> ranks{
          rank_task(request_of(1, "ann")), rank_task(bad), rank_task(request_of(3, "cat"))};
      running.run_together({ranks.begin(), ranks.end()});
      EXPECT_FALSE(ranks[0]->error.has_value());
      ASSERT_TRUE(ranks[1]->error.has_value());
      EXPECT_EQ(ranks[1]->error->status(), 400);
      EXPECT_FALSE(ranks[2]->error.has_value());
    }
    RunningEngine again(folder.path());
    EXPECT_EQ(again.report().counts.decisions, 2U);
  }
}

TEST(Recovery, ADatabaseThatIsMissingBesideSnapshotsIsNoNewFolder) {
  const TemporaryFolder folder;
  fill(folder.path());
  const fs::path database = folder / SqliteLogStore::kFileName;
  for (const bool empty : {false, true}) {
    fs::remove(database);
    if (empty) {
      put_file(database, "");
    }
    const auto before = all_files(folder / "snapshots");
    try {
      RunningEngine running(folder.path());
      FAIL() << "it started";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("restore"), std::string::npos) << error.what();
    }
    EXPECT_EQ(fs::exists(database), empty);
    EXPECT_TRUE(all_files(folder / "snapshots") == before);
  }
}

TEST(Recovery, SnapshotsOfAnotherDatabaseAreNotMixedIn) {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  fill(folder.path());
  {
    RunningEngine running(other.path());
    running.create("m", small_model());
    running.play_together(500, 580);
  }
  const std::uint64_t own = digest_of(other.path());
  fs::remove_all(other / "snapshots");
  fs::copy(folder / "snapshots", other / "snapshots");
  EXPECT_EQ(digest_of(other.path()), own);
}

TEST(Recovery, ADamagedSnapshotDoesNotPushOutTheSoundOne) {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::vector<std::string> before = snapshot_names(folder.path());
  ASSERT_EQ(before.size(), 2U);
  damage(folder / "snapshots" / before[1], 200);
  const std::string damaged = file_contents(folder / "snapshots" / before[1]);
  {
    RunningEngine running(folder.path());
    running.play(60, 70);
    EXPECT_FALSE(running.snapshot()->error.has_value());
    const std::vector<std::string> after = snapshot_names(folder.path());
    ASSERT_EQ(after.size(), 3U);
    EXPECT_EQ(after[0], before[0]);  // sound, and still one of the two
    EXPECT_EQ(after[1], before[1] + ".damaged");
    EXPECT_TRUE(file_contents(folder / "snapshots" / after[1]) == damaged);
    // The latest snapshot is damaged as well, so the sound one is needed.
    damage(folder / "snapshots" / after[2], 200);
  }
  EXPECT_NO_THROW(digest_of(folder.path()));
}

TEST(Recovery, ARestartReadsOnlyWhatNoSnapshotHolds) {
  const TemporaryFolder folder;
  {
    RunningEngine running(folder.path());
    running.create("idle", small_model());
    running.create("m", small_model());
    running.play_together(0, 20);
    running.snapshot();
  }
  // Recovery does not need this row; reading it would find the damage.
  run_sql(folder.path(), "UPDATE log SET body = x'00' WHERE model = 2 AND position = 3");
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage =
      open_data_folder(folder.path(), StorageAccess::kOwn, {.check_bytes = 0});
  ModelHost host(*storage, threads);
  EXPECT_EQ(host.recover().rows, 0U);
  EXPECT_EQ(host.report("m").counts.decisions, 20U);
}

TEST(Recovery, TheTimeOfARestartIsThatOfAllModelsTogether) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  host.recover();
  for (const char* name : {"a", "b"}) {
    host.create(name, small_model());
    for (std::uint64_t i = 0; i < 600; ++i) {
      const RankRequest request = request_of(i, "ann");
      host.decide(name, {&request}, 1000);
    }
  }
  // 0.012 s each, before anything was measured.
  EXPECT_TRUE(host.due_snapshots(0.1).empty());
  EXPECT_EQ(host.due_snapshots(0.02).size(), 2U);
}

TEST(Recovery, ASecondSnapshotWaitsForTheFirst) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  running.play(0, 3);
  std::vector<Task> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
      task.snapshots.push_back(host.snapshot("m"));
    }));
  }
  running.run_together(tasks);
  EXPECT_FALSE(base_of(tasks[0]).error.has_value());
  for (const std::size_t later : {1U, 2U}) {
    const std::optional<ServiceError>& error = base_of(tasks[later]).error;
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->status(), 503);
    EXPECT_EQ(row_of(error->code).retry_after, 1);
  }
}

TEST(Recovery, TheSameRankWithOtherExclusionsIsAConflict) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  RankRequest request = request_of(1, "ann");
  request.eligible[2] = false;
  const auto first = running.rank(request);
  EXPECT_TRUE(encode_event(running.rank(request)->decision) == encode_event(first->decision));
  request.eligible = {true, true, true};
  ASSERT_TRUE(running.rank(request)->error.has_value());
  EXPECT_EQ(running.rank(request)->error->status(), 409);
}

TEST(Recovery, WhatWaitsStaysBoundedUnderFullBatches) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.queue_limit = 4096;
  RunningEngine running(folder.path(), options);
  ModelOptions model = small_model();
  model.most_pending = 10;
  running.create("m", model);
  std::vector<Task> tasks;
  for (std::uint64_t i = 0; i < 1024; ++i) {
    tasks.push_back(rank_task(request_of(i, "ann")));
  }
  std::size_t waiting = 0;
  tasks.push_back(control_task(
      [&](ControlTask&, ModelHost& host, std::int64_t) { waiting = host.report("m").waiting; }));
  running.run_together(tasks);
  EXPECT_LE(waiting, 10U);
}

TEST(Recovery, ARewardAfterTheWaitingTimeIsLateEvenBeforeItsEndIsLogged) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  running.create("m", options);
  running.rank(request_of(1, "ann"));
  const auto reward = reward_task("event-1", 1.0F);
  running.run_together({reward}, [&] { running.clock.set(1'010'000); });
  EXPECT_EQ(reward->outcome, RewardOutcome::kLate);
  EXPECT_EQ(running.report().counts.defaults, 1U);
  EXPECT_EQ(running.report().counts.learned, 1U);
}

TEST(Recovery, AModelCanBeDeletedAndMadeAgainInOneBatch) {
  const TemporaryFolder folder;
  {
    RunningEngine running(folder.path());
    running.create("m", small_model());
    running.play(0, 3);
    const std::vector<Task> tasks{
        control_task([](ControlTask&, ModelHost& host, std::int64_t) { host.remove("m"); }),
        control_task(
            [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }),
        control_task([](ControlTask&, ModelHost& host, std::int64_t) { host.remove("m"); }),
        control_task(
            [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); })};
    running.run_together(tasks);
    for (const Task& task : tasks) {
      EXPECT_FALSE(base_of(task).error.has_value()) << base_of(task).error->message;
    }
    EXPECT_EQ(running.report().counts.decisions, 0U);
    EXPECT_EQ(running.metrics.commit_failures, 0U);
  }
  RunningEngine again(folder.path());
  EXPECT_EQ(again.report().counts.decisions, 0U);
}

TEST(Recovery, ATaskThatFailsInAnyWayEndsNothing) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  const auto failed =
      running.control([](ControlTask&, ModelHost&, std::int64_t) { throw std::bad_alloc(); });
  ASSERT_TRUE(failed->error.has_value());
  EXPECT_EQ(failed->error->status(), 500);
  const auto later = running.control([](ControlTask& task, ModelHost&, std::int64_t) {
    task.follow_up = [](Storage&) {
      throw fs::filesystem_error("gone", std::make_error_code(std::errc::io_error));
    };
  });
  ASSERT_TRUE(later->error.has_value());
  EXPECT_EQ(later->error->status(), 503);
  running.play(0, 3);
}

TEST(Recovery, ADamagedRowIsOneAskersTrouble) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  running.play(0, 3);
  run_sql(folder.path(), "UPDATE log SET body = x'00' WHERE position = 2");
  const auto again = rank_task(request_of(0, "user-0"));
  const auto fresh = rank_task(request_of(9, "user-0"));
  running.run_together({again, fresh});
  ASSERT_TRUE(again->error.has_value());
  EXPECT_EQ(again->error->code, ErrorCode::kEventDamaged);
  EXPECT_FALSE(fresh->error.has_value());
  EXPECT_FALSE(running.rank(request_of(1, "user-1"))->error.has_value());
  // No read transaction was left open, so the WAL can be emptied.
  Database database(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite);
  EXPECT_TRUE(database.checkpoint(true));
}

TEST(Recovery, OldEventsAreErasedAlsoWhereNothingHappens) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.log_days = 1.0;
  options.trim_seconds = 0.02;
  {
    RunningEngine running(folder.path(), options);
    running.create("idle", small_model());
    running.create("m", small_model());
    running.play_together(0, 20);
    const std::uint64_t last = running.report().last_position;
    running.clock.set(1'000'000 + 3 * 86'400'000LL);
    SqliteLogStore store = log_beside(folder.path());
    wait_until([&] { return !store.read(2, last).has_value(); });
    running.play(20, 25);
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
  RunningEngine again(folder.path(), options, 1'000'000 + 3 * 86'400'000LL);
  EXPECT_EQ(again.report().counts.decisions, 25U);
}

TEST(Recovery, AClockThatIsYearsAheadAtTheStartErasesNothing) {
  const TemporaryFolder folder;
  fill(folder.path());
  EngineOptions options;
  options.log_days = 1.0;
  options.trim_seconds = 0.01;
  const std::int64_t rows = ask_sql(folder.path(), "SELECT count(*) FROM log");
  {
    RunningEngine running(folder.path(), options, 1'000'000'000'000);
    running.play(60, 64);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_GT(ask_sql(folder.path(), "SELECT count(*) FROM log"), rows);
  }
  // Rows are also kept once the clock is right again but the times in the log are not.
  {
    RunningEngine running(folder.path(), options, 2'000'000);
    running.clock.not_before(0);
    running.play(64, 66);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(ask_sql(folder.path(), "SELECT complete FROM models"), 1);
  // Rows are trimmed if the engine does not doubt the clock.
  options.doubt_seconds = 0.0;
  RunningEngine running(folder.path(), options, 2'000'000'000'000);
  SqliteLogStore store = log_beside(folder.path());
  wait_until([&] { return first_position(store, 1) > 1; });
}

TEST(Recovery, DeletingAModelThatACrashCutShortIsFinishedAtTheNextStart) {
  const TemporaryFolder folder;
  std::uint32_t id = 0;
  {
    RunningEngine running(folder.path());
    running.create("gone", small_model());
    running.create("m", small_model());
    running.rank(request_of(1, "ann"), "gone");
    running.play(0, 5);
    running.control(
        [&](ControlTask&, ModelHost& host, std::int64_t) { id = host.report("gone").id; });
  }
  ASSERT_EQ(snapshot_names(folder.path()).size(), 2U);  // one each
  {
    // Commit the transaction of a deletion, and do nothing after it.
    log_beside(folder.path()).commit({.models = {id}});
  }
  RunningEngine running(folder.path());
  const std::string count = "SELECT count(*) FROM log WHERE model = " + std::to_string(id);
  wait_until([&] {
    return ask_sql(folder.path(), count) == 0 && snapshot_names(folder.path()).size() == 1;
  });
  EXPECT_EQ(running.report().counts.decisions, 5U);
}

}  // namespace
}  // namespace mcnb::recovery_test
