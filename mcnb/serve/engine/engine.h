#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/serve/engine/clock.h"
#include "mcnb/serve/engine/metrics.h"
#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/store/folder_lock.h"

namespace mcnb {

// Something that the engine is asked to do. `done` is called once, on a thread of the engine, when
// the answer is there and all that it rests on is on disk.
struct Task {
  virtual ~Task() = default;
  std::string model;
  std::optional<ServiceError> error;  // why it could not be done
  std::function<void()> done;
};

struct RankTask : Task {
  RankRequest request;
  Decision decision;
};

struct RewardTask : Task {
  Reward reward;
  RewardOutcome outcome{};
};

struct ActivationTask : Task {
  Activation activation;
};

// Anything else: runs on the thread that owns the models.
struct ControlTask : Task {
  std::function<void(ModelHost& host, LogStore& store, std::int64_t time)> work;
  // What has to follow when the batch is on disk, on another thread, before the answer.
  std::vector<SnapshotJob> snapshots;
  std::vector<LogStore::Erasure> erasures;  // from ModelHost::forget
  std::function<void(LogStore& store)> follow_up;
};

struct EngineOptions {
  std::filesystem::path folder;
  std::size_t threads = 0;         // of the policies; 0: one per processor
  std::size_t queue_limit = 1024;  // tasks
  double restart_seconds = 10.0;   // that replaying the log may take
  std::uint64_t log_bytes = std::uint64_t{8} << 30;
  double log_days = 90.0;
  double trim_seconds = 1.0;  // from one look at the log's size and age to the next
  // Where the clock stands more than a day after the last event of the log when the engine starts,
  // nothing is erased by age for so long: clocks are sometimes wrong.
  double doubt_seconds = 86'400.0;
};

// Runs the models: one thread owns them and takes all tasks that wait together, one writes what
// they did to disk in one transaction while the next tasks are computed, one keeps house
// (snapshots, erasing, checkpoints). Answers go out only after their transaction.
//
// Where a transaction fails, nobody whose event was in it hears more than that; the models go back
// to what the disk says, and nothing is served until the disk can be written again. Likewise where
// an event cannot be applied: what was computed with it is not written.
class Engine {
 public:
  // Takes the data folder for itself, makes it where it is missing, and makes the models from it.
  // Throws Error: kSystem where another engine has the folder or the system refuses; kCorrupt.
  Engine(const EngineOptions& options, Clock& clock, Metrics& metrics);
  // Answers everything that waits, writes snapshots, stops.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // False where too much waits already, or the engine stops: the task was not taken.
  bool submit(std::shared_ptr<Task> task);

  // False while the disk cannot be written.
  bool ready() const { return ready_.load(); }
  // As of about a second ago.
  std::vector<ModelReport> reports() const;
  // What has to be known of a model to read requests for it; nothing for an unknown one.
  std::optional<ModelOptions> options_of(const std::string& model) const;
  std::uint64_t log_bytes() const { return log_bytes_.load(); }

  // Takes no more tasks, and answers those it has.
  void stop();

 private:
  // Computed, but not yet on disk.
  struct Computed {
    Batch batch;
    std::vector<std::shared_ptr<Task>> tasks;
    std::vector<SnapshotJob> snapshots;
  };
  struct Chore {
    std::shared_ptr<ControlTask> task;  // to be answered afterwards, or none
    std::vector<SnapshotJob> snapshots;
    std::vector<LogStore::Erasure> erasures;
    std::function<void(LogStore& store)> work;
  };

  void recover();
  void repair();
  void run();
  std::vector<std::shared_ptr<Task>> take_tasks();
  void compute(std::vector<std::shared_ptr<Task>> tasks);
  std::vector<SnapshotJob> work(const std::vector<std::shared_ptr<Task>>& tasks);
  void serve(Task& task, std::int64_t time);
  void discard(const std::vector<std::shared_ptr<Task>>& tasks, const char* why);
  void write_last_snapshots();
  void decide(const std::vector<std::shared_ptr<Task>>& tasks, std::int64_t time);
  void hand_over(std::vector<std::shared_ptr<Task>> tasks, std::vector<SnapshotJob> snapshots);
  void publish();
  void write_computed();
  void answer(const std::vector<std::shared_ptr<Task>>& tasks);
  void keep_house();
  void do_chore(const Chore& chore);
  void write_snapshot(const SnapshotJob& job);
  void erase_user(const LogStore::Erasure& erasure);
  void trim_log();
  bool clock_in_doubt() const;

  EngineOptions options_;
  Clock& clock_;
  Metrics& metrics_;
  FolderLock lock_;
  ThreadPool threads_;
  ModelHost host_;
  WriteGate gate_;
  LogStore store_;  // of the engine's thread
  LogStore writer_store_;
  LogStore house_store_;
  Snapshots snapshots_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::int64_t clock_ahead_ = 0;  // of the log's last event, at the start, in milliseconds
  std::atomic<bool> ready_{false};
  std::atomic<std::uint64_t> log_bytes_{0};

  mutable std::mutex facts_mutex_;
  std::vector<ModelReport> reports_;

  std::mutex queue_mutex_;
  std::condition_variable queue_wake_;
  std::deque<std::shared_ptr<Task>> queue_;
  bool stopping_ = false;
  bool more_expiries_ = false;
  bool broken_ = false;  // the models know less or more than the log
  std::chrono::steady_clock::time_point published_;

  std::mutex writer_mutex_;
  std::condition_variable writer_wake_;
  std::deque<Computed> computed_;
  bool writing_ = false;
  bool failed_ = false;  // a transaction was lost: the models know more than the disk
  bool writer_stopping_ = false;

  std::mutex house_mutex_;
  std::condition_variable house_wake_;
  std::deque<Chore> chores_;
  std::vector<std::function<void(ModelHost&)>> news_;  // from the house to the engine's thread
  bool house_stopping_ = false;
  std::atomic<std::uint64_t> snapshots_wanted_{0};  // all models should have one from this place on
  std::atomic<std::uint64_t> erasable_until_{0};

  std::thread house_;
  std::thread writer_;
  std::thread engine_;
};

}  // namespace mcnb
