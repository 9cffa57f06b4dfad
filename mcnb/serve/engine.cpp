#include "mcnb/serve/engine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

#include "mcnb/base/error.h"
#include "mcnb/serve/log_lines.h"

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

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const fs::path& make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot make the folder: {}", folder.string(), problem.message()));
  }
  return folder;
}

}  // namespace

Engine::FolderLock::FolderLock(const fs::path& folder) {
  const fs::path path = make_folder(folder) / "lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  }
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    ::close(file_);
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: another server has this data folder", folder.string()));
  }
}

Engine::FolderLock::~FolderLock() { ::close(file_); }

Engine::Engine(const EngineOptions& options, Clock& clock, Metrics& metrics)
    : options_(options),
      clock_(clock),
      metrics_(metrics),
      lock_(options.folder),
      threads_(options.threads),
      host_(options.folder, threads_),
      store_(options.folder, LogStore::Access::kReadWrite),
      snapshots_(options.folder) {
  recover();
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
  const std::lock_guard lock(house_mutex_);
  for (const std::uint32_t model : recovery.orphans) {
    chores_.push_back({nullptr, {}, [this, model](LogStore& store) {
                         store.erase_model(model);
                         snapshots_.remove_below(model, ~std::uint64_t{0});
                       }});
  }
  // Users who were being forgotten when the service ended.
  for (const LogStore::Erasure& erasure : store_.erasures()) {
    std::vector<SnapshotJob> jobs;
    for (const ModelReport& report : host_.reports()) {
      if (report.id == erasure.model) {
        jobs.push_back(host_.snapshot(report.name));
        jobs.back().alone = true;
      }
    }
    chores_.push_back(
        {nullptr, std::move(jobs), [erasure](LogStore& store) { store.erase_user(erasure); }});
  }
  publish();
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
    if (failed) {
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
  // The next start has nothing to replay.
  std::vector<SnapshotJob> jobs;
  for (const ModelReport& report : host_.reports()) {
    if (report.last_place > report.snapshot_place) {
      jobs.push_back(host_.snapshot(report.name));
    }
  }
  hand_over({}, std::move(jobs));
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
    ready_ = true;
    log_info("the disk can be written again");
  } catch (const Error& error) {
    log_error("still cannot write", {{"detail", error.what()}});
    std::this_thread::sleep_for(200ms);
  }
}

void Engine::compute(std::vector<std::shared_ptr<Task>> tasks) {
  const std::int64_t time = clock_.now();
  // Decisions meet the state as it is, all of them together; what is learned comes after.
  decide(tasks, time);
  std::vector<SnapshotJob> snapshots;
  bool changed_models = false;
  for (const std::shared_ptr<Task>& task : tasks) {
    try {
      if (auto* reward = dynamic_cast<RewardTask*>(task.get())) {
        reward->reward.time = time;
        reward->outcome = RewardOutcome::kUnknown;
        reward->outcome = host_.reward(task->model, reward->reward);
        metrics_.rewards[static_cast<std::size_t>(reward->outcome)].fetch_add(1);
      } else if (auto* activation = dynamic_cast<ActivationTask*>(task.get())) {
        activation->activation.time = time;
        host_.activate(task->model, activation->activation);
      } else if (auto* other = dynamic_cast<ControlTask*>(task.get())) {
        other->work(host_, store_, time);
        changed_models = true;
      }
    } catch (const RequestRefused& refused) {
      task->error = refused.error();
      if (task->error->code == "unknown_event" && dynamic_cast<RewardTask*>(task.get())) {
        metrics_.rewards[static_cast<std::size_t>(RewardOutcome::kUnknown)].fetch_add(1);
      }
    } catch (const Error& error) {
      log_error("a task failed", {{"detail", error.what()}});
      task->error = ServiceError{500, "internal", error.what(), "", 0};
    }
  }
  more_expiries_ = host_.expire(time, kExpiriesAtOnce);
  host_.learn();
  snapshots = host_.due_snapshots(options_.restart_seconds);
  if (const std::uint64_t wanted = snapshots_wanted_.exchange(0); wanted > 0) {
    for (SnapshotJob& job : host_.snapshots_from(wanted)) {
      snapshots.push_back(std::move(job));
    }
  }
  if (changed_models || std::chrono::steady_clock::now() - published_ >= kPublishEvery) {
    publish();
  }
  hand_over(std::move(tasks), std::move(snapshots));
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
  LogStore store(options_.folder, LogStore::Access::kReadWrite);
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
        write_batch(store, computed.batch);
        metrics_.commits.fetch_add(1);
        metrics_.commit_rows.observe(static_cast<double>(computed.batch.rows.size()));
        metrics_.commit_seconds.observe(seconds_since(begin));
        if (store.log_pages() > kMostLogPages) {
          store.checkpoint();
        }
      } catch (const Error& error) {
        metrics_.commit_failures.fetch_add(1);
        log_error("cannot commit", {{"detail", error.what()}});
        failed = true;
      }
    }
    std::vector<std::shared_ptr<Task>> answered;
    std::deque<Chore> chores;
    if (!computed.snapshots.empty() && !failed) {
      chores.push_back({nullptr, std::move(computed.snapshots), {}});
    }
    for (std::shared_ptr<Task>& task : computed.tasks) {
      auto* other = dynamic_cast<ControlTask*>(task.get());
      if (failed) {
        task->error = ServiceError{503, "storage_failed", "the disk could not be written", "", 1};
        answered.push_back(std::move(task));
      } else if (other != nullptr && !task->error &&
                 (!other->snapshots.empty() || other->follow_up)) {
        std::shared_ptr<ControlTask> owned = std::static_pointer_cast<ControlTask>(task);
        chores.push_back({owned, std::move(owned->snapshots), std::move(owned->follow_up)});
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

void Engine::write_snapshot(const SnapshotJob& job, LogStore& store) {
  std::function<void(ModelHost&)> tell;
  try {
    snapshots_.write(job.model, job.place, job.bytes);
    if (job.alone) {
      snapshots_.remove_below(job.model, job.place);
    }
    metrics_.snapshots.fetch_add(1);
    log_info("snapshot", {{"model", std::to_string(job.model)},
                          {"row", std::to_string(job.place)},
                          {"bytes", std::to_string(job.bytes.size())}});
    tell = [model = job.model, place = job.place, alone = job.alone](ModelHost& host) {
      host.snapshot_written(model, place, alone);
    };
  } catch (const Error&) {
    metrics_.snapshot_failures.fetch_add(1);
    const std::lock_guard lock(house_mutex_);
    news_.emplace_back([model = job.model](ModelHost& host) { host.snapshot_failed(model); });
    throw;
  }
  const std::lock_guard lock(house_mutex_);
  news_.push_back(std::move(tell));
  static_cast<void>(store);
}

void Engine::do_chore(const Chore& chore, LogStore& store) {
  try {
    for (const SnapshotJob& job : chore.snapshots) {
      write_snapshot(job, store);
    }
    if (chore.work) {
      chore.work(store);
    }
  } catch (const Error& error) {
    log_error("housekeeping failed", {{"detail", error.what()}});
    if (chore.task) {
      chore.task->error = ServiceError{503, "storage_failed", error.what(), "", 1};
    }
  }
  if (chore.task && chore.task->done) {
    chore.task->done();
  }
}

// Erases rows that are too old or too many, as far as two snapshots of every model are younger.
void Engine::trim_log(LogStore& store) {
  const std::uint64_t used = store.used_bytes();
  log_bytes_ = used;
  std::uint64_t until = 0;
  if (used > options_.log_bytes) {
    const double share =
        1.0 - 0.9 * static_cast<double>(options_.log_bytes) / static_cast<double>(used);
    until = store.place_at_share(share);
  }
  const double milliseconds = options_.log_days * 86'400'000.0;
  const std::int64_t oldest = clock_.now() - static_cast<std::int64_t>(milliseconds);
  until = std::max(until, store.last_place_before(oldest));
  if (until == 0) {
    return;
  }
  const std::uint64_t allowed = std::min(until, erasable_until_.load());
  if (allowed < until) {
    snapshots_wanted_ = until;
  }
  store.erase_until(allowed);
}

void Engine::keep_house() {
  LogStore store(options_.folder, LogStore::Access::kReadWrite);
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
    for (const Chore& chore : chores) {
      do_chore(chore, store);
    }
    try {
      std::error_code missing;
      const std::uintmax_t log_size = fs::file_size(store.name() + "-wal", missing);
      if (!missing && log_size > std::uintmax_t{kCheckpointPages} * 8192 &&
          std::chrono::steady_clock::now() - last_checkpoint > 500ms) {
        store.checkpoint();
        last_checkpoint = std::chrono::steady_clock::now();
      }
      if (seconds_since(last_trim) > options_.trim_seconds) {
        last_trim = std::chrono::steady_clock::now();
        trim_log(store);
      }
    } catch (const Error& error) {
      log_error("housekeeping failed", {{"detail", error.what()}});
    }
    lock.lock();
  }
}

}  // namespace mcnb
