// The engine: what is on disk, what a restart makes of it, and what it refuses.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine.h"
#include "mcnb/serve/server.h"
#include "tests/serve/model_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::engine_test {
namespace {

namespace fs = std::filesystem;
using cases::request_of;
using cases::small_model;

// A clock that only the test moves.
class HandClock : public Clock {
 public:
  std::int64_t now() override { return time_; }
  void not_before(std::int64_t time) override { floor_ = time; }
  void set(std::int64_t time) { time_ = time; }
  std::int64_t floor() const { return floor_; }

 private:
  std::atomic<std::int64_t> time_{1'000'000};
  std::atomic<std::int64_t> floor_{0};
};

// An engine with the calls that tests make, each waiting for its answer.
class Running {
 public:
  explicit Running(const fs::path& folder, EngineOptions options = {}) {
    options.folder = folder;
    options.threads = 1;
    engine_ = std::make_unique<Engine>(options, clock, metrics);
  }

  Engine& engine() { return *engine_; }

  template <class Own>
  std::shared_ptr<Own> run(std::shared_ptr<Own> task) {
    std::promise<void> done;
    task->done = [&] { done.set_value(); };
    while (!engine_->submit(task)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    done.get_future().wait();
    return task;
  }
  std::shared_ptr<ControlTask> control(
      std::function<void(ControlTask&, ModelHost&, std::int64_t)> work) {
    auto task = std::make_shared<ControlTask>();
    ControlTask* own = task.get();
    task->work = [own, work](ModelHost& host, LogStore&, std::int64_t time) {
      work(*own, host, time);
    };
    return run(task);
  }
  void create(const std::string& name, const ModelOptions& options) {
    const auto task =
        control([&](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, options); });
    ASSERT_FALSE(task->error.has_value()) << task->error->message;
  }
  std::shared_ptr<RankTask> rank(const RankRequest& request, const std::string& model = "m") {
    auto task = std::make_shared<RankTask>();
    task->model = model;
    task->request = request;
    return run(task);
  }
  std::shared_ptr<RewardTask> reward(const std::string& event, float value,
                                     const std::string& model = "m") {
    auto task = std::make_shared<RewardTask>();
    task->model = model;
    task->reward = {event, "r", 0, value};
    return run(task);
  }
  void snapshot() {
    control([](ControlTask& task, ModelHost& host, std::int64_t) {
      task.snapshots.push_back(host.snapshot("m"));
    });
  }
  ModelReport report() {
    ModelReport report;
    control([&](ControlTask&, ModelHost& host, std::int64_t) { report = host.report("m"); });
    return report;
  }
  // Decides and rewards events number `from` to `to`.
  void play(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      ASSERT_FALSE(rank(request_of(i, "user-" + std::to_string(i % 5)))->error.has_value());
      ASSERT_EQ(reward("event-" + std::to_string(i), static_cast<float>(i % 2))->outcome,
                RewardOutcome::kLearned);
    }
  }

  // The same, many at once: one wait for the disk instead of many.
  void play_together(std::uint64_t from, std::uint64_t to) {
    std::vector<std::shared_ptr<Task>> ranks;
    std::vector<std::shared_ptr<Task>> rewards;
    for (std::uint64_t i = from; i < to; ++i) {
      auto rank = std::make_shared<RankTask>();
      rank->model = "m";
      rank->request = request_of(i, "user-" + std::to_string(i % 5));
      ranks.push_back(rank);
      auto reward = std::make_shared<RewardTask>();
      reward->model = "m";
      reward->reward = {rank->request.event_id, "r", 0, static_cast<float>(i % 2)};
      rewards.push_back(reward);
    }
    for (const auto& tasks : {ranks, rewards}) {
      std::atomic<std::size_t> left{tasks.size()};
      std::promise<void> all;
      for (const std::shared_ptr<Task>& task : tasks) {
        task->done = [&] {
          if (left.fetch_sub(1) == 1) {
            all.set_value();
          }
        };
        ASSERT_TRUE(engine_->submit(task));
      }
      all.get_future().wait();
      for (const std::shared_ptr<Task>& task : tasks) {
        ASSERT_FALSE(task->error.has_value()) << task->error->message;
      }
    }
  }

  HandClock clock;
  Metrics metrics;

 private:
  std::unique_ptr<Engine> engine_;
};

std::map<std::string, std::string> all_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[entry.path().lexically_relative(folder).string()] = file_contents(entry.path());
    }
  }
  return files;
}

std::uint64_t digest_of(const fs::path& folder) {
  ThreadPool threads(1);
  ModelHost host(folder, threads);
  LogStore store(folder, LogStore::Access::kReadWrite);
  host.recover(store);
  return host.digests().at("m");
}

std::vector<fs::path> snapshots_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "snapshots")) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void damage(const fs::path& path, std::size_t at) {
  std::string bytes = file_contents(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  put_file(path, bytes);
}

// A folder with a model, 20 events, a snapshot, 20 more, another, and 20 more.
void fill(const fs::path& folder) {
  Running running(folder);
  running.create("m", small_model());
  running.play(0, 20);
  running.snapshot();
  running.play(20, 40);
  running.snapshot();
  running.play(40, 60);
}

TEST(Engine, ARestartGoesOnWhereItEnded) {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::uint64_t before = digest_of(folder.path());
  {
    Running running(folder.path());
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
  { Running running(folder.path()); }
  // It was moved out of the way, at most.
  const fs::path aside = snapshots[1].string() + ".damaged";
  EXPECT_TRUE(file_contents(fs::exists(aside) ? aside : snapshots[1]) == damaged);
  // With none left, the whole log is replayed, since it is all there.
  fs::remove(aside);
  for (const fs::path& snapshot : snapshots_in(folder.path())) {
    damage(snapshot, 100);
  }
  EXPECT_EQ(digest_of(folder.path()), before);
}

TEST(Engine, WithoutASoundSnapshotATrimmedLogIsRefusedAndNothingChanges) {
  const TemporaryFolder folder;
  fill(folder.path());
  LogStore(folder.path(), LogStore::Access::kReadWrite).erase_until(10);
  for (const fs::path& snapshot : snapshots_in(folder.path())) {
    damage(snapshot, 60);
  }
  const auto before = all_files(folder.path());
  try {
    Running running(folder.path());
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("no snapshot can be read"), std::string::npos);
  }
  for (const auto& [name, bytes] : before) {
    if (name.ends_with(".snapshot") || name == LogStore::kFileName) {
      EXPECT_TRUE(file_contents(folder / name) == bytes) << name;
    }
  }
}

TEST(Engine, ADamagedDatabaseIsRefusedAndNothingIsOverwritten) {
  const TemporaryFolder folder;
  fill(folder.path());
  const fs::path database = folder / LogStore::kFileName;
  {
    LogStore store(folder.path(), LogStore::Access::kReadWrite);
    store.checkpoint(true);
  }
  for (const fs::path& snapshot : snapshots_in(folder.path())) {
    fs::remove(snapshot);  // so that every row has to be read
  }
  const std::string sound = file_contents(database);
  int refused = 0;
  for (std::size_t at = 0; at < sound.size(); at += sound.size() / 23) {
    put_file(database, sound);
    damage(database, at);
    const std::string damaged = file_contents(database);
    try {
      Running running(folder.path());
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
  EXPECT_THROW(Running(folder.path()), Error);
  put_file(database, "this is no database, it only stands where one should");
  EXPECT_THROW(Running(folder.path()), Error);
}

TEST(Engine, ALogThatLostItsEndIsNoticed) {
  const TemporaryFolder folder;
  fill(folder.path());
  fs::remove(folder / LogStore::kFileName);
  for (const char* ending : {"-wal", "-shm"}) {
    fs::remove((folder / LogStore::kFileName).string() + ending);
  }
  {
    LogStore store(folder.path(), LogStore::Access::kReadWrite);
    store.begin();
    store.put_model({1, "m", option_values(small_model()), 0});
    store.commit();
  }
  EXPECT_THROW(Running(folder.path()), Error);
}

TEST(Engine, ASecondEngineOnTheSameFolderIsRefused) {
  const TemporaryFolder folder;
  Running first(folder.path());
  try {
    Running second(folder.path());
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another server"), std::string::npos);
  }
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
    Running running(folder.path());
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
  // The log alone gives the same, whatever the clock says now.
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
  Running running(folder.path(), options);
  running.create("m", small_model());
  running.play_together(0, 700);  // 1,400 rows and a few arrivals
  while (running.report().snapshot_place == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GE(running.report().snapshot_place, 1000U);
}

TEST(Engine, TheLogIsTrimmedToItsSizeAndAFreshBaseRemains) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.log_bytes = 200'000;
  options.trim_seconds = 0.05;
  {
    Running running(folder.path(), options);
    running.create("m", small_model());
    running.create("idle", small_model());
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t played = 0;
    std::uint64_t base = 0;
    while (base == 0 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      running.play_together(played, played + 200);
      played += 200;
      LogStore store(folder.path(), LogStore::Access::kReadWrite);
      base = store.base_place();
    }
    EXPECT_GT(base, 0U);
    running.play_together(played, played + 100);
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
  Running again(folder.path());
  EXPECT_GT(again.report().counts.decisions, 200U);
}

TEST(Engine, AForgottenUserIsNowhereOnDisk) {
  const TemporaryFolder folder;
  const std::string name = "somebody-who-leaves";
  const auto forget = [&](Running& running) {
    running.control([&](ControlTask& task, ModelHost& host, std::int64_t time) {
      task.snapshots.push_back(host.forget("m", name, time));
      const LogStore::Erasure erasure = host.last_erasure();
      task.follow_up = [erasure](LogStore& store) {
        store.erase_user(erasure);
        store.checkpoint(true);
      };
    });
  };
  {
    Running running(folder.path());
    running.create("m", small_model());
    running.play(0, 10);
    for (std::uint64_t i = 100; i < 110; ++i) {
      running.rank(request_of(i, name));
      running.reward("event-" + std::to_string(i), 1.0F);
    }
    running.snapshot();
    forget(running);
    EXPECT_EQ(snapshots_in(folder.path()).size(), 1U);
    running.play(10, 20);
  }
  for (const auto& [file, bytes] : all_files(folder.path())) {
    EXPECT_EQ(bytes.find(name), std::string::npos) << file;
  }
  Running again(folder.path());
  EXPECT_EQ(again.report().counts.forgotten, 1U);
  EXPECT_EQ(again.report().counts.decisions, 30U);
}

TEST(Engine, ForgettingThatACrashCutShortIsFinishedAtTheNextStart) {
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
  {
    Running running(folder.path());
    while (!LogStore(folder.path(), LogStore::Access::kReadWrite).erasures().empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  LogStore(folder.path(), LogStore::Access::kReadWrite).checkpoint(true);
  for (const auto& [file, bytes] : all_files(folder.path())) {
    EXPECT_EQ(bytes.find(name), std::string::npos) << file;
  }
}

TEST(Engine, ADeletedModelLeavesNothingAndItsNameIsFree) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  running.play(0, 5);
  const auto removed = running.control([&](ControlTask& task, ModelHost& host, std::int64_t) {
    const std::uint32_t id = host.report("m").id;
    host.remove("m");
    task.follow_up = [id](LogStore& store) { store.erase_model(id); };
  });
  EXPECT_FALSE(removed->error.has_value());
  EXPECT_EQ(running.rank(request_of(1, "ann"))->error->status, 404);
  running.create("m", small_model());
  EXPECT_EQ(running.report().counts.decisions, 0U);
  running.play(0, 5);
  EXPECT_EQ(running.report().counts.decisions, 5U);
}

TEST(Engine, TheSameRankAgainGetsTheSameAnswerAndAnotherIsAConflict) {
  const TemporaryFolder folder;
  Running running(folder.path());
  running.create("m", small_model());
  const RankRequest request = request_of(1, "ann");
  const auto first = running.rank(request);
  running.play(2, 10);
  const auto again = running.rank(request);
  ASSERT_FALSE(again->error.has_value()) << again->error->message;
  EXPECT_TRUE(encode_event(again->decision) == encode_event(first->decision));
  RankRequest other = request;
  other.user_id = "bob";
  EXPECT_EQ(running.rank(other)->error->status, 409);
  EXPECT_EQ(running.report().counts.decisions, 9U);
}

TEST(Engine, AFullQueueTakesNothingMore) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.queue_limit = 4;
  Running running(folder.path(), options);
  running.create("m", small_model());
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  const auto blocker = [&] {
    auto task = std::make_shared<ControlTask>();
    task->work = [gone](ModelHost&, LogStore&, std::int64_t) { gone.wait(); };
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
