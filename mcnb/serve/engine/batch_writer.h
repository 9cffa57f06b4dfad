#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "mcnb/serve/engine/bounded_queue.h"
#include "mcnb/serve/engine/housekeeping.h"
#include "mcnb/serve/engine/metrics.h"
#include "mcnb/serve/engine/tasks.h"
#include "mcnb/serve/series/series_book.h"

namespace mcnb {

// Tasks that were computed together, and what must be durable before they are answered.
struct ComputedBatch {
  Batch batch;
  std::vector<Task> tasks;
  std::vector<SnapshotJob> snapshots;
  std::vector<Observation> observed;

  bool empty() const { return batch.empty() && tasks.empty() && snapshots.empty(); }
};

// Commits computed batches in order, notes that they may be acknowledged, and answers their tasks.
// The note of one batch is synced while the next one is committed. After a commit or a note has
// failed, every later batch is dropped and its tasks fail too, until `reset`: they rest on events
// that were lost.
//
// One thread hands batches over, one calls `write`, one calls `acknowledge`; all can be the same.
class BatchWriter {
 public:
  using Wait = std::chrono::milliseconds;

  // Borrows everything.
  BatchWriter(LogStore& log, Housekeeping& housekeeping, Metrics& metrics, SeriesBook& series);

  // Call only from the computing thread.
  bool wait_for_room(Wait wait) { return batches_.wait_for_room(wait); }
  // Requires room.
  void hand_over(ComputedBatch batch);
  // No more batches will come.
  void close() { batches_.close(); }
  // True if a commit has failed since the last `reset`.
  bool failed() const { return failed_.load(); }
  // True if every batch that was handed over has been committed or dropped.
  bool idle() const { return handed_over_ == finished_.load(); }
  // Lets batches be committed again. Requires `idle`.
  void reset() { failed_ = false; }

  // Waits at most so long for a batch and commits it. Returns false when the writer is closed and
  // all batches are committed or dropped.
  bool write(Wait wait);
  // Waits at most so long for committed batches, acknowledges them in the log, answers their tasks,
  // and gives what follows to the housekeeping. Returns false when `write` has returned false and
  // all batches are done; then closes the housekeeping.
  bool acknowledge(Wait wait);

 private:
  bool commit(const Batch& batch);
  bool note();
  void lose(const ComputedBatch& computed);
  void follow_up(ComputedBatch computed);

  LogStore& log_;
  Housekeeping& housekeeping_;
  Metrics& metrics_;
  SeriesBook& series_;
  BoundedQueue<ComputedBatch> batches_;
  BoundedQueue<ComputedBatch> committed_;
  std::uint64_t handed_over_ = 0;
  std::atomic<std::uint64_t> finished_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace mcnb
