#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/engine/batch_writer.h"
#include "mcnb/serve/engine/clock.h"
#include "mcnb/serve/engine/engine_options.h"
#include "mcnb/serve/engine/fair_queue.h"
#include "mcnb/serve/engine/fit_runner.h"
#include "mcnb/serve/engine/housekeeping.h"
#include "mcnb/serve/engine/metrics.h"
#include "mcnb/serve/engine/model_builder.h"
#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/engine/tasks.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// Bytes of the tasks that wait, and of those that are held back beside a large decision.
inline constexpr std::size_t kMostQueueBytes = std::size_t{256} << 20;

// The engine without threads: four stages that are joined by bounded queues, and three beside them.
// `compute` takes tasks that wait and runs them on the models, `write` commits what they did,
// `acknowledge` notes that and answers them, `housekeep` writes snapshots, erases and verifies,
// `fit` runs the fits of policies, and `build` makes new models.
// `Engine` calls each stage on a thread of its own, so that the next batch is computed while one is
// committed; a simulation calls all of them on one thread (`step`). The order in which the stages
// are called may change how tasks are grouped, but no promise: an answer goes out only after the
// commit.
//
// Clients have fair shares (fair_queue.h). A large decision is computed in parts, one in each call
// of `compute`, beside the small tasks; tasks that would change its model wait until it is known.
//
// If a commit fails, everything that was computed after it is dropped and its tasks fail. Tasks
// fail until the models have been made anew from the storage. If an event cannot be applied, what
// was computed with it is not committed, and the models are made anew too.
//
// The destructor neither answers nor writes anything: to drop a core is to crash.
class EngineCore {
 public:
  using Wait = std::chrono::milliseconds;

  // Makes the models from the storage; if somebody else has its lease, as soon as it is free.
  // Borrows the clock and the metrics. Throws Error: kSystem, kCorrupt.
  EngineCore(std::unique_ptr<Storage> storage, const EngineOptions& options, Clock& clock,
             Metrics& metrics);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Safe from any thread. Returns false if the task was not taken; its error then says why: too
  // many wait, it would take too long, or the core is closed. May instead refuse the latest task of
  // a client that has more of them waiting.
  bool submit(const Task& task);
  // Takes no more tasks. The stages finish what they have.
  void close() { tasks_.close(); }

  // The stages. Each waits at most so long for something to do, and returns false when the core is
  // closed and all of the stage's work is done. A stage must not run on two threads at once;
  // different stages may. The last call of `compute` gives snapshots of all models to the writer.
  bool compute(Wait wait);
  bool write(Wait wait) { return writer_.write(wait); }
  bool acknowledge(Wait wait) { return writer_.acknowledge(wait); }
  bool housekeep(Wait wait) { return housekeeping_.run(wait); }
  bool fit(Wait wait) { return fits_.run(wait); }
  bool build(Wait wait) { return builder_.run(wait); }
  // While another owner has the storage: loads its models, and applies what it adds to the log, so
  // that little is left to do when it goes. Safe from any thread.
  void load_ahead(bool wanted) { load_ahead_ = wanted; }
  // The models are loaded, up to a moment ago.
  bool loaded_ahead() const { return loaded_ahead_.load(); }
  // The next owner has the models: no snapshots at the end. Call it before `close`.
  void leave_without_snapshots() { without_snapshots_ = true; }
  // Lets others have the storage. Call it when all stages are done.
  void give_back() { storage_->give_back(); }
  // Runs each stage once, without waiting. Returns false when all work is done after `close`.
  bool step();

  // Safe from any thread. False while the storage cannot be written or read.
  bool ready() const { return ready_.load() && readable_.load(); }
  // The reason, for people. Empty while the core is ready, and until the reason is known.
  std::string why_not_ready() const;
  // What the models looked like about a second ago.
  std::vector<ModelReport> reports() const;
  // The options of a model, or nullopt for an unknown one.
  std::optional<ModelOptions> options_of(const std::string& model) const;
  // What is damaged in the log, as far as it was verified.
  std::vector<Damage> damage() const { return housekeeping_.damage(); }
  std::uint64_t log_bytes() const { return housekeeping_.log_bytes(); }
  double memory_limit() const { return host_.memory_limit(); }
  SeriesBook& series() { return series_; }

 private:
  // What submitted tasks are estimated by.
  struct Price {
    double seconds_per_action = 0.0;
    double estimate_per_action = 0.0;
    std::size_t arms_apart = 0;
  };

  void estimate(TaskBase& task, const Task& own) const;
  std::vector<Task> take_tasks(Wait wait);
  void refuse_late(std::vector<Task>& tasks);
  std::size_t held_bytes() const;
  void bound_held();
  bool must_wait(const Task& task);
  bool has_more() const;
  void run_large(ComputedBatch& computed, std::int64_t time);
  void end_large(const ServiceError& error);
  void take_in_models(std::vector<Task>& tasks, std::int64_t time);
  std::optional<ServiceError> too_costly(const TaskBase& base, const Task& task) const;
  void decide_slots(RankTask& task, std::int64_t time);
  void plan(CreateTask& task, std::int64_t time);
  void adopt(CreateTask& task, std::int64_t time);
  void recover();
  void follow();
  void repair();
  void watch_lease();
  void watch_reads();
  void set_problem(const std::string& problem);
  void hear_housekeeping();
  void compute_batch(std::vector<Task> tasks);
  void run_tasks(const std::vector<Task>& tasks, std::int64_t time);
  void decide(const std::vector<Task>& tasks, std::int64_t time);
  void run_task(const Task& task, std::int64_t time);
  void run_one(RankTask&, std::int64_t) {}  // `decide` has run it
  void run_one(RewardTask& task, std::int64_t time);
  void run_one(ActivationTask& task, std::int64_t time);
  void run_one(ControlTask& task, std::int64_t time);
  void run_one(CreateTask& task, std::int64_t time);
  void tend_fits(std::int64_t time);
  std::vector<SnapshotJob> due_snapshots(std::int64_t time);
  void discard(const std::vector<Task>& tasks, const char* why);
  void publish();
  void sample_series(const std::vector<ModelReport>& reports);
  void finish();

  const EngineOptions options_;
  Clock& clock_;
  Metrics& metrics_;
  std::unique_ptr<Storage> storage_;
  ThreadPool threads_;
  ModelHost host_;
  FairQueue tasks_;
  ModelBuilder builder_;
  SeriesBook series_;
  Housekeeping housekeeping_;
  BatchWriter writer_;
  FitRunner fits_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> readable_{true};
  std::atomic<bool> load_ahead_{false};
  std::atomic<bool> loaded_ahead_{false};
  std::atomic<bool> without_snapshots_{false};

  // Used only by the computing thread.
  std::shared_ptr<RankTask> large_;                    // is computed in parts
  std::vector<Task> held_;                             // until it is known
  std::vector<std::shared_ptr<CreateTask>> building_;  // whose models are being made
  std::vector<std::shared_ptr<CreateTask>> made_;      // of these, those that are made
  double batch_cost_ = 0.0;                            // of the small tasks of the present batch
  bool more_expiries_ = false;
  bool broken_ = false;  // the models do not agree with the log
  bool finished_ = false;
  double next_repair_ = 0.0;       // uptime, in seconds
  double next_lease_check_ = 0.0;  // uptime, in seconds
  double next_movement_ = 0.0;     // uptime, in seconds
  double next_publish_ = 0.0;      // uptime, in seconds
  LogPositions snapshots_wanted_;  // by the housekeeping
  std::optional<Recovery> ahead_;  // of models that were loaded ahead
  std::string ahead_problem_;      // why they could not be

  mutable std::mutex reports_mutex_;  // guards what follows
  std::vector<ModelReport> reports_;
  std::map<std::string, Price, std::less<>> prices_;
  std::string problem_;  // why the storage could not be used
};

}  // namespace mcnb
