#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/store/sqlite_log_store.h"
#include "tests/serve/model_cases.h"
#include "tests/temporary_folder.h"

// An engine in the test's own process, and access to the files that it writes.
namespace mcnb::cases {

// A clock that only the test moves. Intervals pass in real time.
class HandClock : public Clock {
 public:
  std::int64_t now() override { return time_; }
  std::int64_t system_now() override { return time_; }
  double uptime() override { return real_.uptime(); }
  double processor_seconds() override { return real_.processor_seconds(); }
  void not_before(std::int64_t time) override { floor_ = time; }
  void set(std::int64_t time) { time_ = time; }
  std::int64_t floor() const { return floor_; }

 private:
  std::atomic<std::int64_t> time_{1'000'000};
  std::atomic<std::int64_t> floor_{0};
  SteadyClock real_;
};

inline std::shared_ptr<RankTask> rank_task(const RankRequest& request,
                                           const std::string& model = "m") {
  auto task = std::make_shared<RankTask>();
  task->model = model;
  task->request = request;
  return task;
}

inline std::shared_ptr<RewardTask> reward_task(const std::string& event, float value,
                                               const std::string& model = "m") {
  auto task = std::make_shared<RewardTask>();
  task->model = model;
  task->reward = {event, "r", 0, value};
  return task;
}

inline std::shared_ptr<ControlTask> control_task(
    std::function<void(ControlTask&, ModelHost&, std::int64_t)> work) {
  auto task = std::make_shared<ControlTask>();
  ControlTask* own = task.get();
  task->work = [own, work](ModelHost& host, Storage&, std::int64_t time) {
    work(*own, host, time);
  };
  return task;
}

// Makes the task erase a user's rows after the commit that forgets the user.
inline void erase_afterwards(ControlTask& task, const std::vector<Erasure>& erasures) {
  task.follow_up = [erasures](Storage& storage) {
    for (const Erasure& erasure : erasures) {
      storage.erase_user(erasure);
    }
  };
}

// An engine with the calls that tests make, each waiting for its answer.
class RunningEngine {
 public:
  explicit RunningEngine(const std::filesystem::path& folder, EngineOptions options = {},
                         std::int64_t time = 1'000'000) {
    clock.set(time);
    options.folder = folder;
    options.threads = 1;
    engine_ = std::make_unique<Engine>(options, clock, metrics);
  }

  explicit RunningEngine(std::unique_ptr<Storage> storage, EngineOptions options = {}) {
    options.threads = 1;
    engine_ = std::make_unique<Engine>(std::move(storage), options, clock, metrics);
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
    return run(control_task(std::move(work)));
  }
  void create(const std::string& name, const ModelOptions& options) {
    const auto task =
        control([&](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, options); });
    ASSERT_FALSE(task->error.has_value()) << task->error->message;
  }
  std::shared_ptr<RankTask> rank(const RankRequest& request, const std::string& model = "m") {
    return run(rank_task(request, model));
  }
  std::shared_ptr<RewardTask> reward(const std::string& event, float value,
                                     const std::string& model = "m") {
    return run(reward_task(event, value, model));
  }
  std::shared_ptr<ControlTask> snapshot() {
    return control([](ControlTask& task, ModelHost& host, std::int64_t) {
      task.snapshots.push_back(host.snapshot("m"));
    });
  }
  std::shared_ptr<ControlTask> forget(const std::string& user) {
    return control([user](ControlTask& task, ModelHost& host, std::int64_t time) {
      erase_afterwards(task, host.forget("m", user, time));
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

  // Runs all tasks in one batch, unless they are too many for one. `first` runs while they wait.
  void run_together(const std::vector<Task>& tasks, const std::function<void()>& first = {}) {
    std::promise<void> begun;
    std::promise<void> go;
    auto blocker = std::make_shared<ControlTask>();
    blocker->work = [&](ModelHost&, Storage&, std::int64_t) {
      begun.set_value();
      go.get_future().wait();
    };
    ASSERT_TRUE(engine_->submit(blocker));
    begun.get_future().wait();
    std::atomic<std::size_t> left{tasks.size()};
    std::promise<void> all;
    for (const Task& task : tasks) {
      base_of(task).done = [&] {
        if (left.fetch_sub(1) == 1) {
          all.set_value();
        }
      };
      ASSERT_TRUE(engine_->submit(task));
    }
    if (first) {
      first();
    }
    go.set_value();
    all.get_future().wait();
  }

  // Does what `play` does in a few batches, so that it waits for the disk only a few times.
  void play_together(std::uint64_t from, std::uint64_t to) {
    std::vector<Task> ranks;
    std::vector<Task> rewards;
    for (std::uint64_t i = from; i < to; ++i) {
      ranks.push_back(rank_task(request_of(i, "user-" + std::to_string(i % 5))));
      rewards.push_back(reward_task("event-" + std::to_string(i), static_cast<float>(i % 2)));
    }
    for (const auto& tasks : {ranks, rewards}) {
      run_together(tasks);
      for (const Task& task : tasks) {
        ASSERT_FALSE(base_of(task).error.has_value()) << base_of(task).error->message;
      }
    }
  }

  HandClock clock;
  Metrics metrics;

 private:
  std::unique_ptr<Engine> engine_;
};

inline std::map<std::string, std::string> all_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[entry.path().lexically_relative(folder).string()] = file_contents(entry.path());
    }
  }
  return files;
}

inline std::uint64_t digest_of(const std::filesystem::path& folder) {
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = open_data_folder(folder, StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  host.recover();
  return host.digests().at("m");
}

// Opens the log of a folder while the engine that owns it runs.
inline SqliteLogStore log_beside(const std::filesystem::path& folder) {
  return SqliteLogStore(folder, SqliteLogStore::Access::kReadWrite);
}

// The position of the first row that a model still has; 0 if it has no rows.
inline std::uint64_t first_position(LogStore& log, std::uint32_t model) {
  std::uint64_t first = 0;
  log.replay(model, 0, [&](const LogRow& row) { first = first == 0 ? row.position : first; });
  return first;
}

inline std::vector<std::filesystem::path> snapshots_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "snapshots")) {
    if (entry.path().extension() != ".pieces") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

template <class Condition>
void wait_until(Condition condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(condition());
}

inline void run_sql(const std::filesystem::path& folder, const std::string& sql) {
  Database(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite).run(sql.c_str());
}

inline std::int64_t ask_sql(const std::filesystem::path& folder, const std::string& sql) {
  return Database(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite)
      .number(sql.c_str());
}

inline std::vector<std::string> snapshot_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& path : snapshots_in(folder)) {
    names.push_back(path.filename().string());
  }
  return names;
}

inline void damage(const std::filesystem::path& path, std::size_t at) {
  std::string bytes = file_contents(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  put_file(path, bytes);
}

// A folder with a model, 20 events, a snapshot, 20 more, another, and 20 more.
inline void fill(const std::filesystem::path& folder) {
  RunningEngine running(folder);
  running.create("m", small_model());
  running.play_together(0, 20);
  running.snapshot();
  running.play_together(20, 40);
  running.snapshot();
  running.play_together(40, 60);
}

}  // namespace mcnb::cases
