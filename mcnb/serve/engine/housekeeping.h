#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "mcnb/serve/engine/bounded_queue.h"
#include "mcnb/serve/engine/clock.h"
#include "mcnb/serve/engine/engine_options.h"
#include "mcnb/serve/engine/fair_queue.h"
#include "mcnb/serve/engine/metrics.h"
#include "mcnb/serve/engine/tasks.h"
#include "mcnb/serve/series/series_book.h"

namespace mcnb {

// Something that follows a commit but is too slow for the thread that commits.
struct HousekeepingJob {
  std::vector<SnapshotJob> snapshots;          // written first
  std::function<void(Storage& storage)> work;  // done after them; may be empty
  std::shared_ptr<ControlTask> task;           // answered at the end; may be null
};

// What the housekeeping tells the owner of the models.
struct SnapshotWritten {
  std::uint32_t model = 0;
  std::uint64_t position = 0;
  bool alone = false;  // older ones were removed
};
struct SnapshotFailed {
  std::uint32_t model = 0;
};
// Two snapshots of each of these models, at or after the position, would allow more to be erased.
struct SnapshotsWanted {
  LogPositions positions;
};
using Notification = std::variant<SnapshotWritten, SnapshotFailed, SnapshotsWanted>;

// Writes snapshots, erases what is too old, too much or to be forgotten, and maintains the store.
// `run` is for one thread at a time; everything else is safe from many threads.
class Housekeeping {
 public:
  using Wait = std::chrono::milliseconds;

  // Borrows the storage, the clock, the metrics and the series. Uses them only in `run`.
  Housekeeping(Storage& storage, const EngineOptions& options, Clock& clock, Metrics& metrics,
               SeriesBook& series);

  // Compares the clock with the time of the log's last event (0: there is none).
  void check_clock(std::int64_t last_event);

  bool wait_for_room(Wait wait) { return jobs_.wait_for_room(wait); }
  // Waits while too many jobs are waiting.
  void add(std::vector<HousekeepingJob> jobs);
  // Does the task's `look_up` when no job waits, and answers the task. Clients take turns. If too
  // many wait, refuses the latest of the client that has the most of them; refuses one that has
  // waited for `wait_seconds`, too.
  void look_up(std::shared_ptr<ControlTask> task);
  // No more jobs will come.
  void close() { jobs_.close(); }

  // Waits at most so long for something to do, does the jobs that wait and one look-up, then the
  // regular upkeep. Returns false when the housekeeping is closed and all jobs are done.
  bool run(Wait wait);

  std::vector<Notification> take_notifications();
  // No restart needs the rows of these models up to these positions.
  void allow_erasing(LogPositions positions);
  // What is damaged in the log: all that the last whole pass over it found, and what the present
  // one has found so far.
  std::vector<Damage> damage() const;
  // The size of the log when it was last checked.
  std::uint64_t log_bytes() const { return log_bytes_.load(); }

 private:
  void perform(const HousekeepingJob& job);
  bool has_look_ups() const;
  void do_look_up();
  void refuse_look_ups();
  void write_snapshot(const SnapshotJob& job);
  void notify(Notification notification);
  void maintain();
  void save_series();
  void trim_log();
  void verify_log();
  void report(std::vector<Damage> found, bool finished);
  bool clock_in_doubt() const;

  Storage& storage_;
  EngineOptions options_;
  Clock& clock_;
  Metrics& metrics_;
  SeriesBook& series_;
  BoundedQueue<std::vector<HousekeepingJob>> jobs_;
  std::atomic<double> doubt_until_{0.0};  // uptime, in seconds
  double next_trim_ = 0.0;                // uptime, in seconds
  double next_series_ = 0.0;              // uptime, in seconds
  double next_pass_ = 0.0;                // uptime, in seconds
  double last_verify_ = 0.0;              // uptime, in seconds
  double verify_budget_ = 0.0;            // bytes; below 0 after a large part
  std::vector<Damage> found_now_;         // in the present pass
  std::atomic<std::uint64_t> log_bytes_{0};

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Damage> damage_;
  std::vector<Notification> notifications_;
  LogPositions erasable_;
  FairLines look_ups_;  // ControlTasks
};

}  // namespace mcnb
