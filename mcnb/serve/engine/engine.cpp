#include "mcnb/serve/engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::size_t kTasksAtOnce = 512;
constexpr std::size_t kExpiriesAtOnce = 256;
constexpr std::size_t kBatchesUnderWay = 2;
constexpr int kCheckpointPages = 512;    // that the housekeeping thread writes back
constexpr int kMostLogPages = 8 * 1024;  // at which the writer itself helps
constexpr auto kPublishEvery = 500ms;
constexpr std::int64_t kDay = 86'400'000;  // in milliseconds

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Engine::Engine(const EngineOptions& options, Clock& clock, Metrics& metrics)
    : options_(options),
      clock_(clock),
      metrics_(metrics),
      lock_(options.folder, FolderLock::Kind::kServe),
      threads_(options.threads),
      host_(options.folder, threads_),
      store_(options.folder, LogStore::Access::kReadWrite, &gate_, true),
      writer_store_(options.folder, LogStore::Access::kReadWrite, &gate_, true),
      house_store_(options.folder, LogStore::Access::kReadWrite, &gate_),
      snapshots_(options.folder) {
  recover();
  snapshots_.remove_unfinished();
  const std::int64_t last = host_.last_time();
  clock_ahead_ = last == 0 ? 0 : clock_.system_now() - last;
  if (clock_in_doubt()) {
    log_warning("the clock stands far after the last event of the log",
                {{"days", std::to_string(clock_ahead_ / kDay)},
                 {"detail", "nothing is erased by age for a while, in case it is wrong"}});
  }
  ready_ = true;
  house_ = std::thread([this] { keep_house(); });
  writer_ = std::thread([this] { write_computed(); });
  engine_ = std::thread([this] { run(); });
}

Engine::~Engine() { stop(); }

void Engine::stop() {
  {
    const std::lock_guard lock(queue_mutex_);
    stopping_ = true;
  }
  queue_wake_.notify_all();
  if (engine_.joinable()) {
    engine_.join();
  }
  {
    const std::lock_guard lock(writer_mutex_);
    writer_stopping_ = true;
  }
  writer_wake_.notify_all();
  if (writer_.joinable()) {
    writer_.join();
  }
  {
    const std::lock_guard lock(house_mutex_);
    house_stopping_ = true;
  }
  house_wake_.notify_all();
  if (house_.joinable()) {
    house_.join();
  }
}

void Engine::recover() {
  const Recovery recovery = host_.recover(store_);
  for (const std::string& warning : recovery.warnings) {
    log_warning("recovery", {{"detail", warning}});
  }
  log_info("recovered", {{"models", std::to_string(host_.reports().size())},
                         {"rows", std::to_string(recovery.rows)},
                         {"seconds", fmt::format("{:.3f}", recovery.seconds)}});
  clock_.not_before(host_.last_time());
  // Every model could be made without them. They must not count as one of the two that are kept.
  for (const Recovery::Damaged& damaged : recovery.damaged) {
    snapshots_.set_aside(damaged.model, damaged.place);
  }
  std::deque<Chore> chores;
  for (const std::uint32_t model : recovery.orphans) {
    chores.push_back({nullptr, {}, {}, [this, model](LogStore& store) {
                        store.erase_model(model);
                        snapshots_.remove_all(model);
                      }});
  }
  // Users who were being forgotten when the service ended.
  std::vector<LogStore::Erasure> erasures = store_.erasures();
  for (const LogStore::Erasure& erasure : erasures) {
    host_.resume(erasure);
  }
  if (!erasures.empty()) {
    chores.push_back({nullptr, host_.forgetting_snapshots(), std::move(erasures), {}});
  }
  publish();
  const std::lock_guard lock(house_mutex_);
  std::ranges::move(chores, std::back_inserter(chores_));
}

bool Engine::submit(std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (stopping_ || queue_.size() >= options_.queue_limit) {
      metrics_.queue_full.fetch_add(1);
      return false;
    }
    queue_.push_back(std::move(task));
    metrics_.queued = static_cast<std::int64_t>(queue_.size());
  }
  queue_wake_.notify_one();
  return true;
}

std::vector<ModelReport> Engine::reports() const {
  const std::lock_guard lock(facts_mutex_);
  return reports_;
}

std::optional<ModelOptions> Engine::options_of(const std::string& model) const {
  const std::lock_guard lock(facts_mutex_);
  for (const ModelReport& report : reports_) {
    if (report.name == model) {
      return report.options;
    }
  }
  return std::nullopt;
}

void Engine::publish() {
  std::vector<ModelReport> reports = host_.reports();
  published_ = std::chrono::steady_clock::now();
  erasable_until_ = host_.erasable_until();
  const std::lock_guard lock(facts_mutex_);
  reports_ = std::move(reports);
}

// All that waits, or nothing after a short while: waiting times may have ended.
std::vector<std::shared_ptr<Task>> Engine::take_tasks() {
  std::unique_lock lock(queue_mutex_);
  queue_wake_.wait_for(lock, more_expiries_ ? 0ms : 10ms,
                       [this] { return stopping_ || !queue_.empty(); });
  std::vector<std::shared_ptr<Task>> tasks;
  while (!queue_.empty() && tasks.size() < kTasksAtOnce) {
    tasks.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  metrics_.queued = static_cast<std::int64_t>(queue_.size());
  return tasks;
}

void Engine::run() {
  for (;;) {
    std::vector<std::shared_ptr<Task>> tasks = take_tasks();
    {
      const std::lock_guard lock(house_mutex_);
      for (const auto& tell : news_) {
        tell(host_);
      }
      news_.clear();
    }
    bool failed = false;
    {
      const std::lock_guard lock(writer_mutex_);
      failed = failed_;
    }
    if (failed || broken_) {
      repair();
    }
    if (!ready_) {
      for (const std::shared_ptr<Task>& task : tasks) {
        task->error = ServiceError{503, "storage_failed", "the disk cannot be written", "", 1};
      }
      answer(tasks);
      const std::lock_guard lock(queue_mutex_);
      if (stopping_ && queue_.empty()) {
        return;
      }
      continue;
    }
    {
      const std::lock_guard lock(queue_mutex_);
      if (stopping_ && tasks.empty() && queue_.empty()) {
        break;
      }
    }
    compute(std::move(tasks));
  }
  write_last_snapshots();
}

// The next start has nothing to replay. Where that cannot be had, it replays.
void Engine::write_last_snapshots() {
  try {
    hand_over({}, broken_ ? std::vector<SnapshotJob>() : host_.last_snapshots());
  } catch (const std::exception& error) {
    log_error("no snapshots at the end", {{"detail", error.what()}});
  }
}

// After a lost transaction: back to what is on disk.
void Engine::repair() {
  ready_ = false;
  {
    std::unique_lock lock(writer_mutex_);
    writer_wake_.wait(lock, [this] { return computed_.empty() && !writing_; });
  }
  try {
    store_.probe();
    recover();
    const std::lock_guard lock(writer_mutex_);
    failed_ = false;
    broken_ = false;
    ready_ = true;
    log_info("the models are what the disk says again");
  } catch (const std::exception& error) {
    log_error("still cannot write", {{"detail", error.what()}});
    std::this_thread::sleep_for(200ms);
  }
}

void Engine::compute(std::vector<std::shared_ptr<Task>> tasks) {
  std::vector<SnapshotJob> snapshots;
  try {
    snapshots = work(tasks);
  } catch (const std::exception& error) {
    discard(tasks, error.what());
  }
  if (host_.broken() && !broken_) {
    discard(tasks, "an event could not be applied");
  }
  hand_over(std::move(tasks), std::move(snapshots));
}

// What was computed is not written, and the models are made anew from the disk.
void Engine::discard(const std::vector<std::shared_ptr<Task>>& tasks, const char* why) {
  log_error("a batch was given up", {{"detail", why}});
  broken_ = true;
  static_cast<void>(host_.take_batch());
  for (const std::shared_ptr<Task>& task : tasks) {
    if (!task->error) {
      task->error = ServiceError{500, "internal", "the request could not be worked on", "", 1};
    }
  }
}

std::vector<SnapshotJob> Engine::work(const std::vector<std::shared_ptr<Task>>& tasks) {
  const std::int64_t time = clock_.now();
  // Decisions meet the state as it is, all of them together; what is learned comes after.
  decide(tasks, time);
  // Before rewards, which may be too late. More can end than can begin: what waits stays bounded.
  more_expiries_ = host_.expire(time, std::max(kExpiriesAtOnce, 2 * tasks.size()));
  bool changed_models = false;
  for (const std::shared_ptr<Task>& task : tasks) {
    serve(*task, time);
    changed_models = changed_models || dynamic_cast<ControlTask*>(task.get()) != nullptr;
  }
  host_.learn();
  std::vector<SnapshotJob> snapshots = host_.forgetting_snapshots();
  const auto add = [&](std::vector<SnapshotJob> more) {
    std::ranges::move(more, std::back_inserter(snapshots));
  };
  add(host_.due_snapshots(options_.restart_seconds));
  if (const std::uint64_t wanted = snapshots_wanted_.exchange(0); wanted > 0) {
    add(host_.snapshots_from(wanted, time));
  }
  if (changed_models || std::chrono::steady_clock::now() - published_ >= kPublishEvery) {
    publish();
  }
  return snapshots;
}

// All but decisions.
void Engine::serve(Task& task, std::int64_t time) {
  auto* reward = dynamic_cast<RewardTask*>(&task);
  const auto count = [&](RewardOutcome outcome) {
    metrics_.rewards[static_cast<std::size_t>(outcome)].fetch_add(1);
  };
  try {
    if (reward != nullptr) {
      reward->reward.time = time;
      reward->outcome = host_.reward(task.model, reward->reward);
      count(reward->outcome);
    } else if (auto* activation = dynamic_cast<ActivationTask*>(&task)) {
      activation->activation.time = time;
      host_.activate(task.model, activation->activation);
    } else if (auto* other = dynamic_cast<ControlTask*>(&task)) {
      other->work(host_, store_, time);
    }
  } catch (const RequestRefused& refused) {
    task.error = refused.error();
    if (task.error->code == "unknown_event" && reward != nullptr) {
      count(RewardOutcome::kUnknown);
    }
  } catch (const std::exception& error) {
    log_error("a task failed", {{"detail", error.what()}});
    task.error = ServiceError{500, "internal", error.what(), "", 0};
  }
}

void Engine::decide(const std::vector<std::shared_ptr<Task>>& tasks, std::int64_t time) {
  std::map<std::string, std::vector<RankTask*>> by_model;
  for (const std::shared_ptr<Task>& task : tasks) {
    if (auto* rank = dynamic_cast<RankTask*>(task.get())) {
      by_model[task->model].push_back(rank);
    }
  }
  for (const auto& [model, ranks] : by_model) {
    metrics_.decisions_together.observe(static_cast<double>(ranks.size()));
    std::vector<const RankRequest*> requests;
    for (const RankTask* rank : ranks) {
      requests.push_back(&rank->request);
    }
    std::vector<ModelHost::Decided> answers = host_.decide(model, requests, time, store_);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i]->error = std::move(answers[i].error);
      if (answers[i].decision) {
        ranks[i]->decision = std::move(*answers[i].decision);
      }
    }
  }
}

void Engine::hand_over(std::vector<std::shared_ptr<Task>> tasks,
                       std::vector<SnapshotJob> snapshots) {
  Computed computed{host_.take_batch(), std::move(tasks), std::move(snapshots)};
  if (computed.batch.empty() && computed.tasks.empty() && computed.snapshots.empty()) {
    return;
  }
  std::unique_lock lock(writer_mutex_);
  writer_wake_.wait(lock, [this] { return computed_.size() < kBatchesUnderWay; });
  computed_.push_back(std::move(computed));
  writer_wake_.notify_all();
}

void Engine::answer(const std::vector<std::shared_ptr<Task>>& tasks) {
  for (const std::shared_ptr<Task>& task : tasks) {
    if (task->done) {
      task->done();
    }
  }
}

void Engine::write_computed() {
  std::unique_lock lock(writer_mutex_);
  for (;;) {
    writer_wake_.wait(lock, [this] { return writer_stopping_ || !computed_.empty(); });
    if (computed_.empty()) {
      return;
    }
    Computed computed = std::move(computed_.front());
    computed_.pop_front();
    writing_ = true;
    bool failed = failed_;
    lock.unlock();
    writer_wake_.notify_all();
    if (!failed && !computed.batch.empty()) {
      const auto begin = std::chrono::steady_clock::now();
      try {
        write_batch(writer_store_, computed.batch);
        metrics_.commits.fetch_add(1);
        metrics_.commit_rows.observe(static_cast<double>(computed.batch.rows.size()));
        metrics_.commit_seconds.observe(seconds_since(begin));
        if (writer_store_.log_pages() > kMostLogPages) {
          writer_store_.checkpoint();
        }
      } catch (const std::exception& error) {
        metrics_.commit_failures.fetch_add(1);
        log_error("cannot commit", {{"detail", error.what()}});
        failed = true;
      }
    }
    std::vector<std::shared_ptr<Task>> answered;
    std::deque<Chore> chores;
    if (!computed.snapshots.empty() && !failed) {
      chores.push_back({nullptr, std::move(computed.snapshots), {}, {}});
    }
    for (std::shared_ptr<Task>& task : computed.tasks) {
      auto* other = dynamic_cast<ControlTask*>(task.get());
      if (failed) {
        task->error = ServiceError{503, "storage_failed", "the disk could not be written", "", 1};
        answered.push_back(std::move(task));
      } else if (other != nullptr && !task->error &&
                 (!other->snapshots.empty() || !other->erasures.empty() || other->follow_up)) {
        std::shared_ptr<ControlTask> owned = std::static_pointer_cast<ControlTask>(task);
        chores.push_back({owned, std::move(owned->snapshots), std::move(owned->erasures),
                          std::move(owned->follow_up)});
      } else {
        answered.push_back(std::move(task));
      }
    }
    lock.lock();
    failed_ = failed_ || failed;
    writing_ = false;
    lock.unlock();
    writer_wake_.notify_all();
    if (!chores.empty()) {
      const std::lock_guard house_lock(house_mutex_);
      std::ranges::move(chores, std::back_inserter(chores_));
      house_wake_.notify_all();
    }
    answer(answered);
    lock.lock();
  }
}

void Engine::write_snapshot(const SnapshotJob& job) {
  std::function<void(ModelHost&)> tell;
  try {
    snapshots_.write(job.model, job.place, job.bytes);
    if (job.alone) {
      snapshots_.remove_before(job.model, job.place);
    }
    metrics_.snapshots.fetch_add(1);
    log_info("snapshot", {{"model", std::to_string(job.model)},
                          {"row", std::to_string(job.place)},
                          {"bytes", std::to_string(job.bytes.size())}});
    tell = [model = job.model, place = job.place, alone = job.alone](ModelHost& host) {
      host.snapshot_written(model, place, alone);
    };
  } catch (const std::exception&) {
    metrics_.snapshot_failures.fetch_add(1);
    const std::lock_guard lock(house_mutex_);
    news_.emplace_back([model = job.model](ModelHost& host) { host.snapshot_failed(model); });
    throw;
  }
  const std::lock_guard lock(house_mutex_);
  news_.push_back(std::move(tell));
}

void Engine::erase_user(const LogStore::Erasure& erasure) {
  const std::vector<std::uint64_t> snapshots = snapshots_.places(erasure.model);
  if (house_store_.has_model(erasure.model) &&
      (snapshots.empty() || snapshots.back() < erasure.until)) {
    throw Error(ErrorKind::kSystem,
                "the snapshot without the user could not be written: ask again");
  }
  house_store_.erase_user(erasure);
}

void Engine::do_chore(const Chore& chore) {
  try {
    for (const SnapshotJob& job : chore.snapshots) {
      write_snapshot(job);
    }
    for (const LogStore::Erasure& erasure : chore.erasures) {
      erase_user(erasure);
    }
    if (chore.work) {
      chore.work(house_store_);
    }
  } catch (const std::exception& error) {
    log_error("housekeeping failed", {{"detail", error.what()}});
    if (chore.task) {
      chore.task->error = ServiceError{503, "storage_failed", error.what(), "", 1};
    }
  }
  if (chore.task && chore.task->done) {
    chore.task->done();
  }
}

bool Engine::clock_in_doubt() const {
  return clock_ahead_ > kDay && seconds_since(began_) < options_.doubt_seconds;
}

// Erases rows that are too old or too many, as far as two snapshots of every model are younger.
void Engine::trim_log() {
  const std::uint64_t used = house_store_.used_bytes();
  log_bytes_ = used;
  std::uint64_t until = 0;
  if (used > options_.log_bytes) {
    const double share =
        1.0 - 0.9 * static_cast<double>(options_.log_bytes) / static_cast<double>(used);
    until = house_store_.place_at_share(share);
  }
  if (!clock_in_doubt()) {
    // The earlier of the two: a clock that was set wrong, then or now, ages nothing.
    const std::int64_t now = std::min(clock_.now(), clock_.system_now());
    const double milliseconds = options_.log_days * static_cast<double>(kDay);
    until = std::max(until,
                     house_store_.last_place_before(now - static_cast<std::int64_t>(milliseconds)));
  }
  if (until == 0) {
    return;
  }
  const std::uint64_t allowed = std::min(until, erasable_until_.load());
  if (allowed < until) {
    snapshots_wanted_ = until;
  }
  house_store_.erase_until(allowed);
}

void Engine::keep_house() {
  auto last_trim = std::chrono::steady_clock::now() - 1h;
  auto last_checkpoint = last_trim;
  std::unique_lock lock(house_mutex_);
  for (;;) {
    house_wake_.wait_for(lock, 50ms, [this] { return house_stopping_ || !chores_.empty(); });
    if (chores_.empty() && house_stopping_) {
      break;
    }
    std::deque<Chore> chores = std::exchange(chores_, {});
    lock.unlock();
    while (!chores.empty()) {
      do_chore(chores.front());
      chores.pop_front();  // its snapshots are large
    }
    try {
      std::error_code missing;
      const std::uintmax_t log_size = fs::file_size(house_store_.name() + "-wal", missing);
      if (!missing && log_size > std::uintmax_t{kCheckpointPages} * 8192 &&
          std::chrono::steady_clock::now() - last_checkpoint > 500ms) {
        house_store_.checkpoint();
        last_checkpoint = std::chrono::steady_clock::now();
      }
      if (seconds_since(last_trim) > options_.trim_seconds) {
        last_trim = std::chrono::steady_clock::now();
        trim_log();
      }
    } catch (const std::exception& error) {
      log_error("housekeeping failed", {{"detail", error.what()}});
    }
    lock.lock();
  }
}

}  // namespace mcnb
