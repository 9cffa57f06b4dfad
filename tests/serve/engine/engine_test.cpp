// The engine: what it stores, what it restores after a restart, and what it refuses.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "mcnb/base/error.h"
#include "mcnb/serve/server.h"
#include "tests/serve/running_engine.h"

namespace mcnb::engine_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

TEST(Engine, ARestartGoesOnWhereItEnded) {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::uint64_t before = digest_of(folder.path());
  {
    RunningEngine running(folder.path());
    EXPECT_EQ(running.report().counts.decisions, 60U);
    EXPECT_EQ(running.report().version, 60U);
    EXPECT_EQ(running.clock.floor(), 1'000'000);
  }
  EXPECT_EQ(digest_of(folder.path()), before);
}

TEST(Engine, ADamagedSnapshotIsLeftAloneAndTheOneBeforeIsUsed) {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::uint64_t before = digest_of(folder.path());
  const std::vector<fs::path> snapshots = snapshots_in(folder.path());
  ASSERT_EQ(snapshots.size(), 2U);
  damage(snapshots[1], file_contents(snapshots[1]).size() / 2);
  const std::string damaged = file_contents(snapshots[1]);
  EXPECT_EQ(digest_of(folder.path()), before);
  { RunningEngine running(folder.path()); }
  // The damaged snapshot may have been renamed, but it is not changed.
  const fs::path aside = snapshots[1].string() + ".damaged";
  EXPECT_TRUE(file_contents(fs::exists(aside) ? aside : snapshots[1]) == damaged);
  // Without a usable snapshot the whole log is replayed, because no row of it is missing.
  fs::remove(aside);
  for (const fs::path& snapshot : snapshots_in(folder.path())) {
    damage(snapshot, 100);
  }
  EXPECT_EQ(digest_of(folder.path()), before);
}

TEST(Engine, WithoutASoundSnapshotATrimmedLogIsRefusedAndNothingChanges) {
  const TemporaryFolder folder;
  fill(folder.path());
  log_beside(folder.path()).erase_until(1, 10);
  for (const fs::path& snapshot : snapshots_in(folder.path())) {
    damage(snapshot, 60);
  }
  const auto before = all_files(folder.path());
  try {
    RunningEngine running(folder.path());
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("no snapshot can be read"), std::string::npos);
  }
  for (const auto& [name, bytes] : before) {
    if (name.ends_with(".snapshot") || name == SqliteLogStore::kFileName) {
      EXPECT_TRUE(file_contents(folder / name) == bytes) << name;
    }
  }
}

TEST(Engine, ADamagedDatabaseIsRefusedAndNothingIsOverwritten) {
  const TemporaryFolder folder;
  fill(folder.path());
  const fs::path database = folder / SqliteLogStore::kFileName;
  // The connection that closes the database last writes the WAL back.
  log_beside(folder.path()).probe();
  ASSERT_FALSE(fs::exists(database.string() + "-wal"));
  for (const fs::path& snapshot : snapshots_in(folder.path())) {
    fs::remove(snapshot);  // so that every row has to be read
  }
  const std::string sound = file_contents(database);
  int refused = 0;
  for (std::size_t at = 0; at < sound.size(); at += sound.size() / 61) {
    put_file(database, sound);
    damage(database, at);
    const std::string damaged = file_contents(database);
    try {
      RunningEngine running(folder.path());
    } catch (const Error& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
      EXPECT_TRUE(file_contents(database) == damaged);
      ++refused;
    }
    for (const char* ending : {"-wal", "-shm"}) {
      fs::remove(database.string() + ending);
    }
    fs::remove_all(folder / "snapshots");
  }
  EXPECT_GT(refused, 2);  // many bytes lie where a page holds nothing
  // A byte inside an event never goes unnoticed.
  put_file(database, sound);
  damage(database, sound.find("event-30") + 3);
  EXPECT_THROW(RunningEngine(folder.path()), Error);
  put_file(database, "this is no database, it only stands where one should");
  EXPECT_THROW(RunningEngine(folder.path()), Error);
}

TEST(Engine, ALogThatLostItsEndIsNoticed) {
  const TemporaryFolder folder;
  fill(folder.path());
  fs::remove(folder / SqliteLogStore::kFileName);
  for (const char* ending : {"-wal", "-shm"}) {
    fs::remove((folder / SqliteLogStore::kFileName).string() + ending);
  }
  fs::remove(folder / Witness::kFileName);  // which would notice it, too
  const fs::path aside = folder / "aside";
  fs::rename(folder / "snapshots", aside);
  {
    log_beside(folder.path())
        .commit({.models = {StoredModel{1, "m", option_values(small_model())}}});
  }
  fs::rename(aside, folder / "snapshots");
  EXPECT_THROW(RunningEngine(folder.path()), Error);
}

TEST(Engine, ASecondEngineOnTheSameFolderIsRefused) {
  const TemporaryFolder folder;
  RunningEngine first(folder.path());
  try {
    RunningEngine second(folder.path());
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another server"), std::string::npos);
  }
}

TEST(Engine, RemovingTheFileLockAdmitsNobody) {
  const TemporaryFolder folder;
  RunningEngine first(folder.path());
  for (const bool put_back : {false, true}) {
    fs::remove(folder / "lock");
    if (put_back) {
      put_file(folder / "lock", "");
    }
    for (const StorageAccess access : {StorageAccess::kOwn, StorageAccess::kLook}) {
      EXPECT_THROW(open_data_folder(folder.path(), access), Error);
    }
  }
}

// What is taken away while the engine runs, and how it may come back.
struct Loss {
  const char* name;
  std::function<void(const fs::path& data)> take_away;
  std::function<void(const fs::path& data)> put_back;  // empty: it cannot be put back
};

void move_aside(const fs::path& path) { fs::rename(path, path.string() + ".aside"); }
void replace_by_copy(const fs::path& path) {
  move_aside(path);
  fs::copy(path.string() + ".aside", path, fs::copy_options::recursive);
}
void move_back(const fs::path& path) {
  fs::remove_all(path);
  fs::rename(path.string() + ".aside", path);
}

std::vector<Loss> losses() {
  const auto in = [](const char* name, void (*work)(const fs::path&)) {
    return [name, work](const fs::path& data) { work(data / name); };
  };
  return {
      {"the folder is removed", [](const fs::path& data) { fs::remove_all(data); }, {}},
      {"the folder is moved away", move_aside, move_back},
      {"another folder is in its place", replace_by_copy, move_back},
      {"the database is removed",
       in("mcnb.db", [](const fs::path& path) { fs::remove(path); }),
       {}},
      {"the WAL is removed", in("mcnb.db-wal", [](const fs::path& path) { fs::remove(path); }), {}},
      {"another database is in its place", in("mcnb.db", replace_by_copy),
       in("mcnb.db", move_back)},
      {"the witness is removed", in("witness", [](const fs::path& path) { fs::remove(path); }), {}},
      {"another witness is in its place", in("witness", replace_by_copy), in("witness", move_back)},
  };
}

// All files but SQLite's index of the WAL, in which every reader leaves a mark.
std::map<std::string, std::string> lasting_files(const fs::path& data) {
  auto files = fs::exists(data) ? all_files(data) : std::map<std::string, std::string>();
  files.erase("mcnb.db-shm");
  return files;
}

TEST(Engine, NothingIsAcknowledgedIntoFilesThatAreGone) {
  for (const Loss& loss : losses()) {
    SCOPED_TRACE(loss.name);
    const TemporaryFolder folder;
    const fs::path data = folder / "data";
    RunningEngine running(data);
    running.create("m", small_model());
    running.play(0, 3);
    loss.take_away(data);
    const auto before = lasting_files(data);
    for (std::uint64_t i = 3; i < 6; ++i) {
      const auto lost = running.rank(request_of(i, "ann"));
      ASSERT_TRUE(lost->error.has_value());
      EXPECT_EQ(lost->error->status(), 503);
    }
    EXPECT_TRUE(running.snapshot()->error.has_value());
    EXPECT_FALSE(running.engine().ready());
    wait_until([&] { return !running.engine().why_not_ready().empty(); });
    EXPECT_NE(running.engine().why_not_ready().find("was removed or replaced"), std::string::npos)
        << running.engine().why_not_ready();
    // Nothing comes back, and nothing is written into what another server may have by now.
    EXPECT_TRUE(lasting_files(data) == before);
    if (loss.put_back) {
      loss.put_back(data);
      wait_until([&] { return running.engine().ready(); });
      running.play(6, 9);
      EXPECT_EQ(running.report().counts.decisions, 6U);
    }
  }
}

TEST(Engine, ALostFolderIsNoticedWithoutARequest) {
  const TemporaryFolder folder;
  RunningEngine running(folder / "data");
  running.create("m", small_model());
  fs::remove_all(folder / "data");
  wait_until([&] { return !running.engine().ready(); });
}

TEST(EngineDeathTest, AFolderThatCannotBeWrittenIsRefused) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "data");
  ::chmod((folder / "data").c_str(), 0555);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EXIT(
      {
        if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(9);
        try {
          HandClock clock;
          Metrics metrics;
          Engine engine({.folder = folder / "data", .threads = 1}, clock, metrics);
          ::_exit(1);
        } catch (const Error& error) {
          ::_exit(error.kind() == ErrorKind::kSystem ? 0 : 2);
        }
      },
      testing::ExitedWithCode(0), "");
}

TEST(Engine, WaitingTimesEndByEventsAndAClockThatJumpsBackEndsNone) {
  const TemporaryFolder folder;
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  {
    RunningEngine running(folder.path());
    running.create("m", options);
    running.rank(request_of(1, "ann"));
    running.clock.set(500'000);  // back
    running.rank(request_of(2, "ann"));
    EXPECT_EQ(running.report().waiting, 2U);
    running.clock.set(1'009'999);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(running.report().waiting, 2U);
    running.clock.set(1'010'000);  // both were decided at 1,000,000: times never go back
    while (running.report().waiting > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(running.report().counts.defaults, 2U);
    running.clock.set(4'000'000'000);  // far ahead
    running.rank(request_of(3, "ann"));
  }
  // The log alone restores the same state, whatever the clock says now.
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
}

TEST(Clock, NeverGoesBelowWhatTheLogHasSeen) {
  SteadyClock clock;
  const std::int64_t now = clock.now();
  clock.not_before(now - 1'000'000);
  EXPECT_LT(clock.now(), now + 60'000);
  clock.not_before(now + 1'000'000);
  EXPECT_GE(clock.now(), now + 1'000'000);
}

TEST(Engine, SnapshotsComeWhenReplayWouldTakeTooLong) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.restart_seconds = 0.02;
  RunningEngine running(folder.path(), options);
  running.create("m", small_model());
  running.play_together(0, 700);  // 1,400 rows and a few arrivals
  while (running.report().snapshot_position == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GE(running.report().snapshot_position, 1000U);
}

TEST(Engine, TheLogIsTrimmedToItsSizeAndAFreshBaseRemains) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.log_bytes = 200'000;
  options.trim_seconds = 0.05;
  {
    RunningEngine running(folder.path(), options);
    running.create("m", small_model());
    running.create("idle", small_model());
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t played = 0;
    std::uint64_t first = 0;
    while (first <= 1 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      running.play_together(played, played + 200);
      played += 200;
      SqliteLogStore store = log_beside(folder.path());
      first = first_position(store, 1);
    }
    EXPECT_GT(first, 1U);
    SqliteLogStore store = log_beside(folder.path());
    while (store.used_bytes() > options.log_bytes &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_LE(store.used_bytes(), options.log_bytes);
    running.play_together(played, played + 100);
    EXPECT_THROW(verify_data(folder.path().string(), 1), Error);  // not while it is served
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
  RunningEngine again(folder.path());
  EXPECT_GT(again.report().counts.decisions, 200U);
}

TEST(Engine, ADeletedModelLeavesNothingAndItsNameIsFree) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  running.play(0, 5);
  const auto removed = running.control([&](ControlTask& task, ModelHost& host, std::int64_t) {
    const std::uint32_t id = host.report("m").id;
    host.remove("m");
    task.follow_up = [id](Storage& storage) { storage.erase_model(id); };
  });
  EXPECT_FALSE(removed->error.has_value());
  EXPECT_EQ(running.rank(request_of(1, "ann"))->error->status(), 404);
  running.create("m", small_model());
  EXPECT_EQ(running.report().counts.decisions, 0U);
  running.play(0, 5);
  EXPECT_EQ(running.report().counts.decisions, 5U);
}

TEST(Engine, TheSameRankAgainGetsTheSameAnswerAndAnotherIsAConflict) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  const RankRequest request = request_of(1, "ann");
  const auto first = running.rank(request);
  running.play(2, 10);
  const auto again = running.rank(request);
  ASSERT_FALSE(again->error.has_value()) << again->error->message;
  EXPECT_TRUE(encode_event(again->decision) == encode_event(first->decision));
  RankRequest other = request;
  other.user_id = "bob";
  EXPECT_EQ(running.rank(other)->error->status(), 409);
  EXPECT_EQ(running.report().counts.decisions, 9U);
}

TEST(Engine, AFullQueueTakesNothingMore) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.queue_limit = 4;
  RunningEngine running(folder.path(), options);
  running.create("m", small_model());
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  const auto blocker = [&] {
    auto task = std::make_shared<ControlTask>();
    task->work = [gone](ModelHost&, Storage&, std::int64_t) { gone.wait(); };
    return task;
  };
  int taken = 0;
  while (running.engine().submit(blocker()) && taken < 100) {
    ++taken;
  }
  EXPECT_LE(taken, 3 * 4 + 1);
  EXPECT_GT(running.metrics.queue_full.load(), 0U);
  go.set_value();
  running.play(0, 3);
}

}  // namespace
}  // namespace mcnb::engine_test
