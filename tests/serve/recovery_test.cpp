// What the engine keeps, repairs and erases: damage, restarts, forgetting, trimming, and batches in
// which one request must not harm another.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <new>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/serve/server.h"
#include "mcnb/storage/sqlite.h"
#include "tests/serve/running.h"

namespace mcnb::recovery_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

template <class Condition>
void wait_until(Condition condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(condition());
}

void run_sql(const fs::path& folder, const std::string& sql) {
  Database(folder / LogStore::kFileName, Database::Access::kReadWrite).run(sql.c_str());
}

std::int64_t ask_sql(const fs::path& folder, const std::string& sql) {
  return Database(folder / LogStore::kFileName, Database::Access::kReadWrite).number(sql.c_str());
}

std::vector<std::string> file_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : snapshots_in(folder)) {
    names.push_back(path.filename().string());
  }
  return names;
}

TEST(Recovery, NumbersThatAreNoneHarmNobodyElse) {
  for (const ModelMode mode : {ModelMode::kOnline, ModelMode::kLogging}) {
    const TemporaryFolder folder;
    {
      Running running(folder.path());
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
      EXPECT_EQ(ranks[1]->error->status, 400);
      EXPECT_FALSE(ranks[2]->error.has_value());
    }
    Running again(folder.path());
    EXPECT_EQ(again.report().counts.decisions, 2U);
  }
}

TEST(Recovery, ADatabaseThatIsMissingBesideSnapshotsIsNoNewFolder) {
  const TemporaryFolder folder;
  fill(folder.path());
  const fs::path database = folder / LogStore::kFileName;
  for (const bool empty : {false, true}) {
    fs::remove(database);
    if (empty) {
      put_file(database, "");
    }
    const auto before = all_files(folder / "snapshots");
    try {
      Running running(folder.path());
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
    Running running(other.path());
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
  const std::vector<std::string> before = file_names(folder.path());
  ASSERT_EQ(before.size(), 2U);
  damage(folder / "snapshots" / before[1], 200);
  const std::string damaged = file_contents(folder / "snapshots" / before[1]);
  {
    Running running(folder.path());
    running.play(60, 70);
    EXPECT_FALSE(running.snapshot()->error.has_value());
    const std::vector<std::string> after = file_names(folder.path());
    ASSERT_EQ(after.size(), 3U);
    EXPECT_EQ(after[0], before[0]);  // sound, and still one of the two
    EXPECT_EQ(after[1], before[1] + ".damaged");
    EXPECT_TRUE(file_contents(folder / "snapshots" / after[1]) == damaged);
    // The latest is damaged as well: the sound one is needed.
    damage(folder / "snapshots" / after[2], 200);
  }
  EXPECT_NO_THROW(digest_of(folder.path()));
}

TEST(Recovery, WhoAnswersClientsWritesBeforeWhoKeepsHouse) {
  WriteGate gate;
  gate.enter(false);
  std::mutex mutex;
  std::vector<std::string> order;
  const auto pass = [&](bool urgent, const char* name) {
    gate.enter(urgent);
    {
      const std::lock_guard lock(mutex);
      order.emplace_back(name);
    }
    gate.leave();
  };
  std::thread house([&] { pass(false, "house"); });
  while (gate.waiting() < 1) std::this_thread::yield();
  std::thread writer([&] { pass(true, "writer"); });
  while (gate.waiting() < 2) std::this_thread::yield();
  gate.leave();
  house.join();
  writer.join();
  EXPECT_EQ(order, (std::vector<std::string>{"writer", "house"}));
}

TEST(Recovery, ErasingLetsTheWriterInBetween) {
  const TemporaryFolder folder;
  WriteGate gate;
  LogStore house(folder.path(), LogStore::Access::kReadWrite, &gate, false);
  LogStore writer(folder.path(), LogStore::Access::kReadWrite, &gate, true);
  constexpr std::uint64_t kRows = 4'000;
  writer.begin();
  for (std::uint64_t place = 1; place <= kRows; ++place) {
    writer.append({place, 1, EventKind::kArrival, 0, 0, std::string(100, 'x')});
  }
  writer.commit();
  std::atomic<bool> erased{false};
  std::thread eraser([&] {
    house.erase_until(kRows);
    erased = true;
  });
  std::uint64_t written = 0;
  while (!erased) {
    ++written;
    writer.begin();
    writer.append({kRows + written, 1, EventKind::kArrival, 0, 0, ""});
    writer.commit();
  }
  eraser.join();
  // A transaction in each pause, at least now and then; all at once would let one in.
  EXPECT_GT(written, 3U);
  EXPECT_EQ(house.base_place(), kRows);
  EXPECT_EQ(ask_sql(folder.path(), "SELECT count(*) FROM log"), static_cast<std::int64_t>(written));
}

TEST(Recovery, ARestartReadsOnlyWhatNoSnapshotHolds) {
  const TemporaryFolder folder;
  {
    Running running(folder.path());
    running.create("idle", small_model());
    running.create("m", small_model());
    running.play_together(0, 20);
    running.snapshot();
  }
  // A row that nobody needs: whoever reads it finds the damage.
  run_sql(folder.path(), "UPDATE log SET body = x'00' WHERE place = 3");
  ThreadPool threads(1);
  ModelHost host(folder.path(), threads);
  LogStore store(folder.path(), LogStore::Access::kReadWrite);
  EXPECT_EQ(host.recover(store).rows, 0U);
  EXPECT_EQ(host.report("m").counts.decisions, 20U);
}

TEST(Recovery, TheTimeOfARestartIsThatOfAllModelsTogether) {
  const TemporaryFolder folder;
  ThreadPool threads(1);
  ModelHost host(folder.path(), threads);
  LogStore store(folder.path(), LogStore::Access::kReadWrite);
  host.recover(store);
  for (const char* name : {"a", "b"}) {
    host.create(name, small_model());
    for (std::uint64_t i = 0; i < 600; ++i) {
      const RankRequest request = request_of(i, "ann");
      host.decide(name, {&request}, 1000, store);
    }
  }
  // 0.012 s each, before anything was measured.
  EXPECT_TRUE(host.due_snapshots(0.1).empty());
  EXPECT_EQ(host.due_snapshots(0.02).size(), 2U);
}

// The bytes of an action's features, as they would stand in a file.
std::string bytes_of(const RankRequest& request, std::size_t action) {
  return {reinterpret_cast<const char*>(request.features.data() + 4 * action), 4 * sizeof(float)};
}

void expect_nothing_of(const std::string& user, const std::vector<std::uint64_t>& events,
                       const fs::path& folder) {
  for (const auto& [file, bytes] : all_files(folder)) {
    EXPECT_EQ(bytes.find(user), std::string::npos) << file;
    for (const std::uint64_t event : events) {
      const RankRequest request = request_of(event, user);
      EXPECT_EQ(bytes.find(request.event_id), std::string::npos) << file << " " << event;
      for (std::size_t action = 0; action < 3; ++action) {
        EXPECT_EQ(bytes.find(bytes_of(request, action)), std::string::npos) << file << " " << event;
      }
    }
  }
}

TEST(Recovery, AForgottenUserIsNowhereOnDisk) {
  const TemporaryFolder folder;
  const std::string name = "somebody-who-leaves";
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  set_option(options, "options.history_limit", "3");  // so that some leave it before
  std::vector<std::uint64_t> events;
  {
    Running running(folder.path());
    running.create("m", options);
    running.play(0, 10);
    for (std::uint64_t i = 100; i < 112; ++i) {
      running.rank(request_of(i, name));
      if (i < 110) {
        running.reward("event-" + std::to_string(i), 1.0F);
      }
      events.push_back(i);
    }
    // Somebody else's history holds what is shared; the late reward is this user's event too.
    running.clock.set(1'011'000);
    EXPECT_EQ(running.reward("event-110", 1.0F)->outcome, RewardOutcome::kLate);
    running.rank(request_of(112, name));  // waits
    events.push_back(112);
    running.snapshot();
    damage(snapshots_in(folder.path()).front(), 300);
    fs::rename(snapshots_in(folder.path()).front(),
               snapshots_in(folder.path()).front().string() + ".damaged");
    const std::string copy = file_contents(snapshots_in(folder.path()).front());
    put_file(folder / "snapshots" / "00000001-00000000000000000009.snapshot.part", copy);
    const auto forgotten = running.forget(name);
    ASSERT_FALSE(forgotten->error.has_value()) << forgotten->error->message;
    EXPECT_EQ(file_names(folder.path()).size(), 1U);
    // While it runs: nothing waits for a checkpoint at the end.
    expect_nothing_of(name, events, folder.path());
    // What it rewards now is nobody's.
    EXPECT_EQ(running.reward("event-111", 1.0F)->error->status, 404);
    running.play(10, 20);
  }
  expect_nothing_of(name, events, folder.path());
  Running again(folder.path());
  EXPECT_EQ(again.report().counts.forgotten, 1U);
  EXPECT_EQ(again.report().counts.decisions, 33U);
}

TEST(Recovery, ForgettingThatACrashCutShortIsFinishedAtTheNextStart) {
  const TemporaryFolder folder;
  const std::string name = "somebody-who-leaves";
  {
    ThreadPool threads(1);
    ModelHost host(folder.path(), threads);
    LogStore store(folder.path(), LogStore::Access::kReadWrite);
    host.recover(store);
    host.create("m", small_model());
    const RankRequest request = request_of(1, name);
    host.decide("m", {&request}, 1000, store);
    static_cast<void>(host.forget("m", name, 2000));
    write_batch(store, host.take_batch());  // and then nothing more
  }
  put_file(folder / "snapshots" / "00000001-00000000000000000001.snapshot.part", name);
  Running running(folder.path());
  wait_until(
      [&] { return LogStore(folder.path(), LogStore::Access::kReadWrite).erasures().empty(); });
  // Once it counts as done, it is: also in the log beside the database.
  expect_nothing_of(name, {1}, folder.path());
}

TEST(Recovery, SeveralAreForgottenWithOneSnapshot) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  running.play(0, 10);
  const std::uint64_t before = running.metrics.snapshots;
  std::vector<std::shared_ptr<Task>> tasks;
  for (const char* user : {"user-1", "user-2", "user-3"}) {
    tasks.push_back(control_task([user](ControlTask& task, ModelHost& host, std::int64_t time) {
      task.erasures.push_back(host.forget("m", user, time));
    }));
  }
  running.run_together(tasks);
  for (const auto& task : tasks) {
    EXPECT_FALSE(task->error.has_value()) << task->error->message;
  }
  EXPECT_EQ(running.metrics.snapshots, before + 1);
  EXPECT_EQ(running.report().counts.forgotten, 3U);
}

TEST(Recovery, ASecondSnapshotWaitsForTheFirst) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  running.play(0, 3);
  std::vector<std::shared_ptr<Task>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
      task.snapshots.push_back(host.snapshot("m"));
    }));
  }
  running.run_together(tasks);
  EXPECT_FALSE(tasks[0]->error.has_value());
  for (const std::size_t later : {1U, 2U}) {
    ASSERT_TRUE(tasks[later]->error.has_value());
    EXPECT_EQ(tasks[later]->error->status, 503);
    EXPECT_EQ(tasks[later]->error->retry_after, 1);
  }
}

TEST(Recovery, TheSameRankWithOtherExclusionsIsAConflict) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  RankRequest request = request_of(1, "ann");
  request.eligible[2] = false;
  const auto first = running.rank(request);
  EXPECT_TRUE(encode_event(running.rank(request)->decision) == encode_event(first->decision));
  request.eligible = {true, true, true};
  ASSERT_TRUE(running.rank(request)->error.has_value());
  EXPECT_EQ(running.rank(request)->error->status, 409);
}

TEST(Recovery, WhatWaitsStaysBoundedUnderFullBatches) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.queue_limit = 4096;
  Running running(folder.path(), options);
  ModelOptions model = small_model();
  model.most_pending = 10;
  running.create("m", model);
  std::vector<std::shared_ptr<Task>> tasks;
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
  Running running(folder.path());
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
    Running running(folder.path());
    running.create("m", small_model());
    running.play(0, 3);
    const std::vector<std::shared_ptr<Task>> tasks{
        control_task([](ControlTask&, ModelHost& host, std::int64_t) { host.remove("m"); }),
        control_task(
            [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }),
        control_task([](ControlTask&, ModelHost& host, std::int64_t) { host.remove("m"); }),
        control_task(
            [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); })};
    running.run_together(tasks);
    for (const auto& task : tasks) {
      EXPECT_FALSE(task->error.has_value()) << task->error->message;
    }
    EXPECT_EQ(running.report().counts.decisions, 0U);
    EXPECT_EQ(running.metrics.commit_failures, 0U);
  }
  Running again(folder.path());
  EXPECT_EQ(again.report().counts.decisions, 0U);
}

TEST(Recovery, ATaskThatFailsInAnyWayEndsNothing) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  const auto failed =
      running.control([](ControlTask&, ModelHost&, std::int64_t) { throw std::bad_alloc(); });
  ASSERT_TRUE(failed->error.has_value());
  EXPECT_EQ(failed->error->status, 500);
  const auto later = running.control([](ControlTask& task, ModelHost&, std::int64_t) {
    task.follow_up = [](LogStore&) {
      throw fs::filesystem_error("gone", std::make_error_code(std::errc::io_error));
    };
  });
  ASSERT_TRUE(later->error.has_value());
  EXPECT_EQ(later->error->status, 503);
  running.play(0, 3);
}

TEST(Recovery, ADamagedRowIsOneAskersTrouble) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  running.play(0, 3);
  run_sql(folder.path(), "UPDATE log SET body = x'00' WHERE place = 2");
  const auto again = rank_task(request_of(0, "user-0"));
  const auto fresh = rank_task(request_of(9, "user-0"));
  running.run_together({again, fresh});
  ASSERT_TRUE(again->error.has_value());
  EXPECT_EQ(again->error->status, 500);
  EXPECT_FALSE(fresh->error.has_value());
  EXPECT_FALSE(running.rank(request_of(1, "user-1"))->error.has_value());
  // No reading was left open: the log beside the database can be emptied.
  LogStore store(folder.path(), LogStore::Access::kReadWrite);
  EXPECT_TRUE(store.checkpoint(true));
}

TEST(Recovery, OldEventsAreErasedAlsoWhereNothingHappens) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.log_days = 1.0;
  options.trim_seconds = 0.02;
  {
    Running running(folder.path(), options);
    running.create("idle", small_model());
    running.create("m", small_model());
    running.play_together(0, 20);
    const std::uint64_t last = running.report().last_place;
    running.clock.set(1'000'000 + 3 * 86'400'000LL);
    LogStore store(folder.path(), LogStore::Access::kReadWrite);
    wait_until([&] { return store.base_place() >= last; });
    wait_until([&] { return !store.read(last).has_value(); });
    running.play(20, 25);
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
  Running again(folder.path(), options, 1'000'000 + 3 * 86'400'000LL);
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
    Running running(folder.path(), options, 1'000'000'000'000);
    running.play(60, 64);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_GT(ask_sql(folder.path(), "SELECT count(*) FROM log"), rows);
  }
  // Not even when the clock is right again, and the log's own times are not.
  {
    Running running(folder.path(), options, 2'000'000);
    running.clock.not_before(0);
    running.play(64, 66);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(ask_sql(folder.path(), "SELECT value FROM facts WHERE name = 'base'"), 0);
  // Without the doubt they would go.
  options.doubt_seconds = 0.0;
  Running running(folder.path(), options, 2'000'000'000'000);
  LogStore store(folder.path(), LogStore::Access::kReadWrite);
  wait_until([&] { return store.base_place() > 0; });
}

TEST(Recovery, DeletingAModelThatACrashCutShortIsFinishedAtTheNextStart) {
  const TemporaryFolder folder;
  std::uint32_t id = 0;
  {
    Running running(folder.path());
    running.create("gone", small_model());
    running.create("m", small_model());
    running.rank(request_of(1, "ann"), "gone");
    running.play(0, 5);
    running.control(
        [&](ControlTask&, ModelHost& host, std::int64_t) { id = host.report("gone").id; });
  }
  ASSERT_EQ(file_names(folder.path()).size(), 2U);  // one each
  {
    // The transaction of a deletion, and then nothing more.
    LogStore store(folder.path(), LogStore::Access::kReadWrite);
    write_batch(store, {.rows = {}, .models = {id}, .erasures = {}});
  }
  Running running(folder.path());
  const std::string count = "SELECT count(*) FROM log WHERE model = " + std::to_string(id);
  wait_until(
      [&] { return ask_sql(folder.path(), count) == 0 && file_names(folder.path()).size() == 1; });
  EXPECT_EQ(running.report().counts.decisions, 5U);
}

}  // namespace
}  // namespace mcnb::recovery_test
