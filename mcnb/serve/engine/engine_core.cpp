#include "mcnb/serve/engine/engine_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/engine/memory_limit.h"

namespace mcnb {
namespace {

constexpr double kMemoryShare = 0.75;  // of the machine's, unless an option says more or less
constexpr double kPublishSeconds = 0.5;
constexpr double kMovementSeconds = 10.0;  // between two measurements of shared learners

double memory_limit_of(const EngineOptions& options) {
  return options.memory_bytes > 0.0 ? options.memory_bytes : kMemoryShare * usable_memory();
}

// Requires that no other thread writes the value.
void raise_to(std::atomic<double>& value, double least) { value = std::max(value.load(), least); }

}  // namespace

EngineCore::EngineCore(std::unique_ptr<Storage> storage, const EngineOptions& options, Clock& clock,
                       Metrics& metrics)
    : options_(options),
      clock_(clock),
      metrics_(metrics),
      storage_(std::move(storage)),
      threads_(options.threads),
      host_(*storage_, threads_, memory_limit_of(options), options.idempotency_hours,
            options.most_copied),
      tasks_({.tasks = options.queue_limit,
              .bytes = kMostQueueBytes,
              .client_seconds = options.wait_seconds}),
      builder_(threads_),
      series_(options.series_file),
      housekeeping_(*storage_, options, clock, metrics, series_),
      writer_(storage_->log(), housekeeping_, metrics, series_) {
  host_.observe_decisions(options.series);
  if (!series_.warning().empty()) {
    log_warning("the time series begin anew", {{"detail", series_.warning()}});
  }
  if (const std::string loss = storage_->lease().loss(); !loss.empty()) {
    broken_ = true;  // until the lease is free
    set_problem(loss);
    log_info("following", {{"detail", loss}});
    return;
  }
  recover();
  storage_->snapshots().remove_unfinished();
  ready_ = true;
}

bool EngineCore::step() {
  const bool computing = compute(Wait(0));
  const bool writing = write(Wait(0));
  const bool acknowledging = acknowledge(Wait(0));
  fit(Wait(0));
  build(Wait(0));
  return housekeep(Wait(0)) || acknowledging || writing || computing;
}

bool EngineCore::compute(Wait wait) {
  if (finished_) {
    return false;
  }
  watch_lease();
  const bool failed = broken_ || writer_.failed();
  if (failed && !writer_.idle()) {
    // What was computed before has to be dropped first.
    ready_ = false;
    std::this_thread::sleep_for(std::min(wait, Wait(1)));
    return true;
  }
  if (!writer_.wait_for_room(wait)) {
    return true;
  }
  std::vector<Task> tasks = take_tasks(more_expiries_ ? Wait(0) : wait);
  hear_housekeeping();
  if (failed) {
    end_large({ErrorCode::kStorageFailed, "the storage could not be written", ""});
    repair();
  }
  if (!ready_) {
    while (std::optional<Task> large = tasks_.take_large()) {
      metrics_.queued.fetch_sub(1);
      tasks.push_back(std::move(*large));
    }
    fail_tasks(tasks, {ErrorCode::kStorageFailed, "the storage cannot be written", ""});
    answer_tasks(tasks);
  } else if (!tasks.empty() || has_more()) {
    compute_batch(std::move(tasks));
    return true;
  }
  if (!has_more()) {
    finish();
  }
  return !finished_;
}

void EngineCore::hear_housekeeping() {
  for (Notification& notification : housekeeping_.take_notifications()) {
    if (const auto* written = std::get_if<SnapshotWritten>(&notification)) {
      host_.snapshot_written(written->model, written->position, written->alone);
    } else if (const auto* failed = std::get_if<SnapshotFailed>(&notification)) {
      host_.snapshot_failed(failed->model);
    } else {
      snapshots_wanted_ = std::move(std::get<SnapshotsWanted>(notification).positions);
    }
  }
}

void EngineCore::compute_batch(std::vector<Task> tasks) {
  const std::int64_t time = clock_.now();
  take_in_models(tasks, time);
  ComputedBatch computed{{}, std::move(tasks), {}, {}};
  const auto begin = std::chrono::steady_clock::now();
  const double processor_begin = clock_.processor_seconds();
  try {
    run_tasks(computed.tasks, time);
    run_large(computed, time);
    if (host_.broken()) {
      discard(computed.tasks, "an event could not be applied");
    } else {
      computed.snapshots = due_snapshots(time);
    }
  } catch (const std::exception& error) {
    discard(computed.tasks, error.what());
  }
  watch_reads();
  computed.batch = host_.take_batch();
  computed.observed = host_.take_observed();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  raise_to(metrics_.longest_batch_seconds, seconds.count());
  raise_to(metrics_.longest_batch_processor_seconds, clock_.processor_seconds() - processor_begin);
  if (!computed.empty()) {
    writer_.hand_over(std::move(computed));
  }
}

// Drops what the tasks did. The models are made anew from the storage before anything else is done.
void EngineCore::discard(const std::vector<Task>& tasks, const char* why) {
  log_error("a batch was discarded", {{"detail", why}});
  broken_ = true;
  static_cast<void>(host_.take_batch());
  static_cast<void>(host_.take_observed());
  const ServiceError error{ErrorCode::kBatchDiscarded, "the request could not be computed", ""};
  fail_tasks(tasks, error);
  end_large(error);
}

void EngineCore::run_tasks(const std::vector<Task>& tasks, std::int64_t time) {
  // All decisions come first: they share one pass over the models as they are.
  decide(tasks, time);
  // Waiting times end before rewards, which may be too late. More can end than can begin, so that
  // what waits stays bounded.
  more_expiries_ = host_.expire(time, 2 * tasks.size());
  for (const Task& task : tasks) {
    run_task(task, time);
  }
  host_.learn();
  tend_fits(time);
  const bool models_changed = std::ranges::any_of(tasks, [](const Task& task) {
    const auto* control = std::get_if<std::shared_ptr<ControlTask>>(&task);
    return (control != nullptr && !(*control)->only_reads) ||
           std::holds_alternative<std::shared_ptr<CreateTask>>(task);
  });
  if (models_changed || clock_.uptime() >= next_publish_) {
    publish();
  }
}

void EngineCore::decide(const std::vector<Task>& tasks, std::int64_t time) {
  std::map<std::string, std::vector<RankTask*>> by_model;
  for (const Task& task : tasks) {
    const auto* const rank = std::get_if<std::shared_ptr<RankTask>>(&task);
    if (rank == nullptr) {
      continue;
    }
    if ((*rank)->further.empty()) {
      by_model[(*rank)->model].push_back(rank->get());
    } else {
      decide_slots(**rank, time);
    }
  }
  for (const auto& [model, ranks] : by_model) {
    metrics_.decisions_together.observe(static_cast<double>(ranks.size()));
    std::vector<const RankRequest*> requests;
    std::size_t actions = 0;
    for (const RankTask* rank : ranks) {
      requests.push_back(&rank->request);
      actions += rank->request.actions.size();
    }
    const double begin = clock_.processor_seconds();
    std::vector<ModelHost::Decided> answers = host_.decide(model, requests, time);
    host_.note_pace(model, actions, clock_.processor_seconds() - begin);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i]->error = std::move(answers[i].error);
      if (answers[i].decision) {
        ranks[i]->decision = std::move(*answers[i].decision);
      }
    }
  }
}

// One slot after the other, because an action that is taken is no choice for those after it.
void EngineCore::decide_slots(RankTask& task, std::int64_t time) {
  std::vector<RankRequest*> slots{&task.request};
  for (RankRequest& request : task.further) {
    slots.push_back(&request);
  }
  task.further_decisions.clear();
  std::set<std::string> taken;  // actions
  for (RankRequest* const request : slots) {
    for (std::size_t i = 0; i < request->actions.size(); ++i) {
      request->eligible[i] = request->eligible[i] && !taken.contains(request->actions[i]);
    }
    ModelHost::Decided decided = std::move(host_.decide(task.model, {request}, time).front());
    if (decided.error) {
      task.error = std::move(decided.error);
      return;
    }
    taken.insert(decided.decision->actions[decided.decision->chosen].id);
    if (request == &task.request) {
      task.decision = std::move(*decided.decision);
    } else {
      task.further_decisions.push_back(std::move(*decided.decision));
    }
  }
}

void EngineCore::run_task(const Task& task, std::int64_t time) {
  try {
    std::visit([&](const auto& own) { run_one(*own, time); }, task);
  } catch (const RequestRefused& refused) {
    base_of(task).error = refused.error();
  } catch (const std::exception& error) {
    log_error("a task failed", {{"detail", error.what()}});
    base_of(task).error = ServiceError{ErrorCode::kInternal, error.what()};
  }
}

void EngineCore::run_one(RewardTask& task, std::int64_t time) {
  const auto count = [&](RewardOutcome outcome) {
    metrics_.rewards[static_cast<std::size_t>(outcome)].fetch_add(1);
  };
  task.reward.time = time;
  try {
    if (!task.slot.empty()) {
      task.reward.event_id = host_.find_slot(task.model, task.reward.event_id, task.slot);
    }
    task.outcome = host_.reward(task.model, task.reward);
    count(task.outcome);
  } catch (const RequestRefused& refused) {
    if (refused.error().code == ErrorCode::kUnknownEvent) {
      count(RewardOutcome::kUnknown);
    }
    throw;
  }
}

void EngineCore::run_one(ActivationTask& task, std::int64_t time) {
  task.activation.time = time;
  host_.activate(task.model, task.activation);
}

void EngineCore::run_one(ControlTask& task, std::int64_t time) {
  task.work(host_, *storage_, time);
}

// Takes in the result of the fit that has ended, and starts the next one that is due.
void EngineCore::tend_fits(std::int64_t time) {
  if (host_.has_large()) {
    return;  // its model must not change
  }
  if (const std::optional<FitRunner::Finished> finished = fits_.take_finished()) {
    if (host_.finish_fit(*finished->fit, finished->result, finished->seconds, time)) {
      metrics_.fits.fetch_add(1);
      metrics_.last_fit_seconds = finished->seconds;
    }
  }
  if (fits_.idle()) {
    if (std::shared_ptr<BackgroundFit> next = host_.next_fit(time)) {
      fits_.start(std::move(next));
    }
  }
}

std::vector<SnapshotJob> EngineCore::due_snapshots(std::int64_t time) {
  std::vector<SnapshotJob> snapshots = host_.forgetting_snapshots();
  std::ranges::move(host_.due_snapshots(options_.restart_seconds), std::back_inserter(snapshots));
  if (!snapshots_wanted_.empty()) {
    std::ranges::move(host_.snapshots_from(std::exchange(snapshots_wanted_, {}), time),
                      std::back_inserter(snapshots));
  }
  return snapshots;
}

void EngineCore::publish() {
  std::vector<ModelReport> reports = host_.reports();
  host_.measure_memory();
  metrics_.memory_bytes = static_cast<std::uint64_t>(host_.memory_used());
  next_publish_ = clock_.uptime() + kPublishSeconds;
  housekeeping_.allow_erasing(host_.erasable());
  sample_series(reports);
  const std::lock_guard lock(reports_mutex_);
  reports_ = std::move(reports);
  prices_.clear();
  for (const ModelReport& report : reports_) {
    prices_[report.name] = {report.seconds_per_action, report.estimate_per_action,
                            report.arms_apart};
  }
}

void EngineCore::sample_series(const std::vector<ModelReport>& reports) {
  if (!options_.series) {
    return;
  }
  // As often as the finest buckets begin: it takes time to measure large learners.
  const bool measures = clock_.uptime() >= next_movement_;
  if (measures) {
    next_movement_ = clock_.uptime() + kMovementSeconds;
  }
  std::vector<ModelTotals> totals;
  for (const ModelReport& report : reports) {
    const ModelCounts& counts = report.counts;
    totals.push_back({report.id, counts.rewards, counts.late, counts.learned, counts.refused,
                      report.steps.training + report.steps.adaptation,
                      measures ? host_.movement(report.name) : std::nullopt});
  }
  series_.sample(totals, clock_.now());
}

std::vector<ModelReport> EngineCore::reports() const {
  const std::lock_guard lock(reports_mutex_);
  return reports_;
}

std::optional<ModelOptions> EngineCore::options_of(const std::string& model) const {
  const std::lock_guard lock(reports_mutex_);
  for (const ModelReport& report : reports_) {
    if (report.name == model) {
      return report.options;
    }
  }
  return std::nullopt;
}

// Hands over snapshots of all models, so that the next start has nothing to replay. Without them it
// replays the log. A fit in progress is part of the state: the next start runs it again.
void EngineCore::finish() {
  finished_ = true;
  try {
    if (ready_) {
      ComputedBatch last{host_.take_batch(), {}, {}, host_.take_observed()};
      if (!without_snapshots_) {
        last.snapshots = host_.last_snapshots();
      }
      if (!last.empty()) {
        writer_.hand_over(std::move(last));
      }
    }
  } catch (const std::exception& error) {
    log_error("no snapshots were written at the end", {{"detail", error.what()}});
  }
  host_.close();
  fits_.close();
  builder_.close();
  const std::vector<Task> unmade(building_.begin(), building_.end());
  building_.clear();
  made_.clear();
  fail_tasks(unmade, {ErrorCode::kOverloaded, "the service stops", ""});
  answer_tasks(unmade);
  writer_.close();
}

}  // namespace mcnb
