#include "mcnb/serve/engine/batch_writer.h"

#include <chrono>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

// One is committed while the next ones are computed. More would only make answers wait.
constexpr std::size_t kBatchesWaiting = 2;

}  // namespace

BatchWriter::BatchWriter(LogStore& log, Housekeeping& housekeeping, Metrics& metrics,
                         SeriesBook& series)
    : log_(log),
      housekeeping_(housekeeping),
      metrics_(metrics),
      series_(series),
      batches_(kBatchesWaiting),
      committed_(kBatchesWaiting) {}

void BatchWriter::hand_over(ComputedBatch batch) {
  ++handed_over_;
  check(batches_.try_push(std::move(batch)), "the writer has room for a batch");
}

bool BatchWriter::write(Wait wait) {
  if (!committed_.wait_for_room(wait)) {
    return true;
  }
  std::optional<ComputedBatch> computed = batches_.pop(wait);
  if (!computed) {
    const bool finished = batches_.finished();
    if (finished) {
      committed_.close();
    }
    return !finished;
  }
  if (!failed_ && !commit(computed->batch)) {
    failed_ = true;
  }
  if (failed_) {
    lose(*computed);
  } else {
    check(committed_.try_push(std::move(*computed)), "there is room for a committed batch");
  }
  return true;
}

bool BatchWriter::acknowledge(Wait wait) {
  if (!housekeeping_.wait_for_room(wait)) {
    return true;
  }
  std::vector<ComputedBatch> batches = committed_.take(kBatchesWaiting, wait);
  if (batches.empty()) {
    const bool finished = committed_.finished();
    if (finished) {
      housekeeping_.close();
    }
    return !finished;
  }
  const bool noted = note();
  for (ComputedBatch& computed : batches) {
    if (noted) {
      finished_.fetch_add(1);
      follow_up(std::move(computed));
    } else {
      failed_ = true;
      lose(computed);
    }
  }
  return true;
}

// Requires `failed_`: whoever sees the writer idle also sees the failure.
void BatchWriter::lose(const ComputedBatch& computed) {
  finished_.fetch_add(1);
  for (const Task& task : computed.tasks) {
    base_of(task).error =
        ServiceError{ErrorCode::kStorageFailed, "the storage could not be written"};
  }
  answer_tasks(computed.tasks);
}

bool BatchWriter::note() {
  const auto begin = std::chrono::steady_clock::now();
  try {
    log_.acknowledge();
  } catch (const std::exception& error) {
    metrics_.commit_failures.fetch_add(1);
    log_error("cannot acknowledge", {{"detail", error.what()}});
    return false;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  metrics_.acknowledge_seconds.observe(seconds.count());
  return true;
}

bool BatchWriter::commit(const Batch& batch) {
  if (batch.empty()) {
    return true;
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    log_.commit(batch);
  } catch (const std::exception& error) {
    metrics_.commit_failures.fetch_add(1);
    log_error("cannot commit", {{"detail", error.what()}});
    return false;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  metrics_.commits.fetch_add(1);
  metrics_.commit_rows.observe(static_cast<double>(batch.rows.size()));
  metrics_.commit_seconds.observe(seconds.count());
  return true;
}

// Answers the tasks, except those that the housekeeping has to answer.
void BatchWriter::follow_up(ComputedBatch computed) {
  series_.record(computed.observed);
  std::vector<HousekeepingJob> jobs;
  if (!computed.snapshots.empty()) {
    jobs.push_back({std::move(computed.snapshots), {}, nullptr});
  }
  std::vector<Task> done;
  for (Task& task : computed.tasks) {
    const auto* control = std::get_if<std::shared_ptr<ControlTask>>(&task);
    if (control != nullptr && !(*control)->error && (*control)->look_up) {
      housekeeping_.look_up(*control);
    } else if (control != nullptr && !(*control)->error &&
               (!(*control)->snapshots.empty() || (*control)->follow_up)) {
      ControlTask& own = **control;
      jobs.push_back({std::move(own.snapshots), std::move(own.follow_up), *control});
    } else {
      done.push_back(std::move(task));
    }
  }
  housekeeping_.add(std::move(jobs));
  answer_tasks(done);
}

}  // namespace mcnb
