#include "mcnb/serve/engine/housekeeping.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/large_pages.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/engine/service_error.h"

namespace mcnb {
namespace {

// Far more than can wait: every client waits for its own job, and each model has at most two
// snapshots under way.
constexpr std::size_t kMostWaiting = 4096;
constexpr std::int64_t kDay = 86'400'000;  // milliseconds
constexpr double kHour = 3'600'000.0;      // milliseconds
// The log is verified from its beginning at most once in so many seconds.
constexpr double kPassSeconds = 3600.0;
constexpr double kSeriesSeconds = 60.0;    // between two writings of the time series
constexpr double kUpkeepSeconds = 0.2;     // between two upkeeps while a snapshot is written
constexpr std::size_t kMostDamage = 100;   // places that are named
constexpr std::size_t kMostLookUps = 256;  // that wait
constexpr double kTurn = 1.0;  // every look-up costs its client one turn, however long it takes

}  // namespace

Housekeeping::Housekeeping(Storage& storage, const EngineOptions& options, Clock& clock,
                           Metrics& metrics, SeriesBook& series)
    : storage_(storage),
      options_(options),
      clock_(clock),
      metrics_(metrics),
      series_(series),
      jobs_(kMostWaiting),
      look_ups_(kTurn) {}

void Housekeeping::check_clock(std::int64_t last_event) {
  const std::int64_t ahead = last_event == 0 ? 0 : clock_.system_now() - last_event;
  if (ahead <= kDay || options_.doubt_seconds <= 0.0) {
    return;
  }
  doubt_until_ = clock_.uptime() + options_.doubt_seconds;
  log_warning("the clock is far ahead of the log's last event",
              {{"days", std::to_string(ahead / kDay)},
               {"detail", "nothing is erased by age for a while, in case the clock is wrong"}});
}

bool Housekeeping::clock_in_doubt() const { return clock_.uptime() < doubt_until_; }

void Housekeeping::add(std::vector<HousekeepingJob> jobs) {
  if (jobs.empty()) {
    return;
  }
  while (!jobs_.push(std::move(jobs), std::chrono::seconds(1))) {
    check(!jobs_.finished(), "no job is added after the housekeeping was closed");
  }
}

void Housekeeping::look_up(std::shared_ptr<ControlTask> task) {
  task->cost = kTurn;
  std::optional<Task> refused;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = look_ups_.empty();
    if (look_ups_.size() < kMostLookUps) {
      look_ups_.push(std::move(task));
    } else if (const std::string longest = look_ups_.longest();
               look_ups_.size_of(longest) > look_ups_.size_of(task->client) + 1) {
      refused = look_ups_.pop_last(longest);
      look_ups_.push(std::move(task));
    } else {
      refused = std::move(task);
    }
  }
  if (first) {
    jobs_.try_push({});  // ends the wait for jobs
  }
  if (refused) {
    metrics_.queue_full.fetch_add(1);
    fail_tasks({*refused}, {ErrorCode::kOverloaded, "too many requests wait", ""});
    answer_tasks({*refused});
  }
}

bool Housekeeping::has_look_ups() const {
  const std::lock_guard lock(mutex_);
  return !look_ups_.empty();
}

void Housekeeping::do_look_up() {
  std::optional<Task> next;
  {
    const std::lock_guard lock(mutex_);
    next = look_ups_.pop();
  }
  if (!next) {
    return;
  }
  const auto task = std::get<std::shared_ptr<ControlTask>>(*next);
  if (task->submitted < clock_.uptime() - options_.wait_seconds) {
    metrics_.waited_too_long.fetch_add(1);
    task->error = ServiceError{ErrorCode::kOverloaded, "the request has waited too long", ""};
    answer_tasks({task});
  } else {
    perform({{}, task->look_up, task});
  }
}

void Housekeeping::refuse_look_ups() {
  std::vector<Task> left;
  {
    const std::lock_guard lock(mutex_);
    while (std::optional<Task> next = look_ups_.pop()) {
      left.push_back(std::move(*next));
    }
  }
  fail_tasks(left, {ErrorCode::kOverloaded, "the service stops", ""});
  answer_tasks(left);
}

bool Housekeeping::run(Wait wait) {
  for (std::vector<HousekeepingJob>& jobs :
       jobs_.take(kMostWaiting, has_look_ups() ? Wait(0) : wait)) {
    for (HousekeepingJob& job : jobs) {
      perform(job);
      job = {};  // its snapshots are large
    }
  }
  if (!jobs_.finished()) {
    do_look_up();
  }
  maintain();
  const bool finished = jobs_.finished();
  if (finished) {
    refuse_look_ups();
    save_series();
  }
  return !finished;
}

void Housekeeping::perform(const HousekeepingJob& job) {
  try {
    for (const SnapshotJob& snapshot : job.snapshots) {
      write_snapshot(snapshot);
    }
    if (job.work) {
      job.work(storage_);
    }
    if (series_.must_save()) {
      series_.save();
    }
  } catch (const RequestRefused& refused) {
    if (job.task) {
      job.task->error = refused.error();
    }
  } catch (const std::exception& error) {
    log_error("housekeeping failed", {{"detail", error.what()}});
    if (job.task) {
      job.task->error = ServiceError{ErrorCode::kStorageFailed, error.what()};
    }
  }
  if (job.task) {
    answer_tasks({job.task});
  }
}

void Housekeeping::write_snapshot(const SnapshotJob& job) {
  std::uint64_t bytes = 0;
  std::uint64_t written = 0;
  try {
    if (job.state->in_pieces()) {
      PiecedState state = job.state->pieces();
      state.next = [&, next = state.next, upkeep = clock_.uptime()]() mutable {
        // A large snapshot takes long: the store wants its upkeep meanwhile, and people ask.
        if (const double now = clock_.uptime(); now >= upkeep + kUpkeepSeconds) {
          upkeep = now;
          maintain();
          do_look_up();
        }
        std::optional<SnapshotPiece> piece = next();
        if (piece) {
          bytes += piece->size;
          written += piece->bytes.size();
        }
        return piece;
      };
      storage_.snapshots().write_pieces(job.model, job.position, state);
      restore_large_pages();
    } else {
      storage_.snapshots().write(job.model, job.position, [&] {
        const std::string_view piece = job.state->next();
        bytes = written += piece.size();
        return piece;
      });
    }
    if (job.alone) {
      storage_.snapshots().remove_before(job.model, job.position);
    }
  } catch (const std::exception& problem) {
    metrics_.snapshot_failures.fetch_add(1);
    notify(SnapshotFailed{job.model});
    const auto* error = dynamic_cast<const Error*>(&problem);
    if (error != nullptr && error->kind() == ErrorKind::kCorrupt) {
      notify(
          SnapshotsWanted{{{job.model, job.position}}});  // one that needs none of the old pieces
    }
    throw;
  }
  metrics_.snapshots.fetch_add(1);
  log_info("snapshot", {{"model", std::to_string(job.model)},
                        {"position", std::to_string(job.position)},
                        {"bytes", std::to_string(bytes)},
                        {"written", std::to_string(written)}});
  notify(SnapshotWritten{job.model, job.position, job.alone});
}

void Housekeeping::maintain() {
  try {
    if (!storage_.lease().held()) {
      return;  // whoever has it does that
    }
    storage_.log().maintain();
    if (const double now = clock_.uptime(); now >= next_trim_) {
      next_trim_ = now + options_.trim_seconds;
      trim_log();
    }
    if (const double now = clock_.uptime(); now >= next_series_) {
      next_series_ = now + kSeriesSeconds;
      save_series();
    }
    verify_log();
  } catch (const std::exception& error) {
    log_error("housekeeping failed", {{"detail", error.what()}});
  }
}

// Losing a minute of them in a crash is no harm.
void Housekeeping::save_series() {
  try {
    series_.save();
  } catch (const Error& error) {
    log_warning("the time series were not written", {{"detail", error.what()}});
  }
}

// Erases rows that are too old or too many, as far as two snapshots of their model are younger.
void Housekeeping::trim_log() {
  LogStore& log = storage_.log();
  const std::uint64_t used = log.used_bytes();
  log_bytes_ = used;
  double share = 0.0;  // of the rows of every model
  if (used > options_.log_bytes) {
    share = 1.0 - 0.9 * static_cast<double>(options_.log_bytes) / static_cast<double>(used);
  }
  // The earlier of the two clocks: a clock that was set wrong, then or now, makes nothing old.
  const std::int64_t now = std::min(clock_.now(), clock_.system_now());
  const double age = options_.log_days * static_cast<double>(kDay);
  LogPositions erasable;
  {
    const std::lock_guard lock(mutex_);
    erasable = erasable_;
  }
  LogPositions wanted;
  for (const auto& [model, allowed] : erasable) {
    std::uint64_t until = share > 0.0 ? log.position_at_share(model, share) : 0;
    if (!clock_in_doubt()) {
      until = std::max(until, log.position_before(model, now - static_cast<std::int64_t>(age)));
    }
    if (allowed < until) {
      wanted[model] = until;
    }
    log.erase_until(model, std::min(until, allowed));
  }
  if (!wanted.empty()) {
    notify(SnapshotsWanted{std::move(wanted)});
  }
  if (!clock_in_doubt()) {
    log.expire_ids(now - static_cast<std::int64_t>(options_.idempotency_hours * kHour));
  }
}

// Verifies as much of the log as its rate allows.
void Housekeeping::verify_log() {
  const double now = clock_.uptime();
  const double elapsed = std::clamp(now - last_verify_, 0.0, 1.0);
  last_verify_ = now;
  if (options_.verify_bytes <= 0.0 || now < next_pass_) {
    return;
  }
  verify_budget_ =
      std::min(verify_budget_ + elapsed * options_.verify_bytes, options_.verify_bytes);
  if (verify_budget_ <= 0.0) {
    return;
  }
  LogStore::Verified verified =
      storage_.log().verify_next(static_cast<std::uint64_t>(verify_budget_));
  verify_budget_ -= static_cast<double>(verified.bytes);
  metrics_.verified_bytes.fetch_add(verified.bytes);
  report(std::move(verified.found), verified.finished);
  if (verified.finished) {
    metrics_.verified_passes.fetch_add(1);
    next_pass_ = now + kPassSeconds;
  }
}

// Names damage that was not known, and asks for snapshots that make its rows unnecessary.
void Housekeeping::report(std::vector<Damage> found, bool finished) {
  LogPositions wanted;
  std::unique_lock lock(mutex_);
  const auto is_known = [](const std::vector<Damage>& known, const Damage& damage) {
    return std::ranges::any_of(
        known, [&](const Damage& other) { return text_of(other) == text_of(damage); });
  };
  for (Damage& damage : found) {
    if (!is_known(damage_, damage) && damage_.size() < kMostDamage) {
      log_error("the log is damaged", {{"detail", text_of(damage)}});
      damage_.push_back(damage);
      if (damage.last > 0) {
        std::uint64_t& position = wanted[damage.model];
        position = std::max(position, damage.last);
      }
    }
    if (found_now_.size() < kMostDamage) {
      found_now_.push_back(std::move(damage));
    }
  }
  if (finished) {  // what is no longer found was erased
    damage_ = std::exchange(found_now_, {});
  }
  metrics_.damaged = damage_.size();
  lock.unlock();
  if (!wanted.empty()) {
    notify(SnapshotsWanted{std::move(wanted)});
  }
}

std::vector<Damage> Housekeeping::damage() const {
  const std::lock_guard lock(mutex_);
  return damage_;
}

void Housekeeping::notify(Notification notification) {
  const std::lock_guard lock(mutex_);
  notifications_.push_back(std::move(notification));
}

std::vector<Notification> Housekeeping::take_notifications() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notifications_, {});
}

void Housekeeping::allow_erasing(LogPositions positions) {
  const std::lock_guard lock(mutex_);
  erasable_ = std::move(positions);
}

}  // namespace mcnb
