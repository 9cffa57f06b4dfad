// How the engine makes its models from the storage: at the start, after a failure, and when it
// takes the storage over from another node.

#include <fmt/core.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/serve/engine/engine_core.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/model/computing_kind.h"

namespace mcnb {
namespace {

constexpr double kRepairSeconds = 0.2;  // between two attempts
constexpr double kLeaseSeconds = 0.2;   // between two looks at the lease

}  // namespace

void EngineCore::recover() {
  std::optional<Recovery> ahead = std::exchange(ahead_, std::nullopt);
  loaded_ahead_ = false;
  const bool is_ahead = ahead && host_.catch_up(*ahead);
  const Recovery recovery = is_ahead ? std::move(*ahead) : host_.recover();
  for (const std::string& warning : recovery.warnings) {
    log_warning("recovery", {{"detail", warning}});
  }
  log_info("recovered", {{"models", std::to_string(host_.reports().size())},
                         {"rows", std::to_string(recovery.rows)},
                         {"ahead", is_ahead ? "yes" : "no"},
                         {"seconds", fmt::format("{:.3f}", recovery.seconds)}});
  clock_.not_before(host_.last_time());
  for (const ModelHost::TakenOver& own : host_.taken_over()) {
    storage_->log().note_kind(own.model, computing_kind(), own.after);
  }
  // Every model could be made without the damaged snapshots, so they must not count as one of the
  // two that are kept.
  for (const Recovery::Damaged& damaged : recovery.damaged) {
    storage_->snapshots().set_aside(damaged.model, damaged.position);
  }
  std::vector<HousekeepingJob> jobs;
  for (const std::uint32_t model : storage_->leftover_models()) {
    jobs.push_back({{}, [model](Storage& storage) { storage.erase_model(model); }, nullptr});
  }
  // Users whose erasure was cut short by the end of the service.
  const std::vector<Erasure> erasures = storage_->log().erasures();
  for (const Erasure& erasure : erasures) {
    host_.resume(erasure);
  }
  if (!erasures.empty()) {
    const auto erase = [erasures](Storage& storage) {
      for (const Erasure& erasure : erasures) {
        storage.erase_user(erasure);
      }
    };
    jobs.push_back({host_.forgetting_snapshots(), erase, nullptr});
  }
  series_.keep_waiting(
      [this](std::uint32_t model, std::uint64_t event) { return host_.is_waiting(model, event); });
  publish();
  housekeeping_.check_clock(host_.last_time());
  housekeeping_.add(std::move(jobs));
}

// Loads the models ahead, or catches up with the log.
void EngineCore::follow() {
  loaded_ahead_ = false;
  if (!load_ahead_ || storage_->lease().held()) {
    return;
  }
  std::optional<Recovery> ahead = std::exchange(ahead_, std::nullopt);
  try {
    if (!ahead) {
      ahead = host_.recover();
    }
    if (host_.catch_up(*ahead)) {
      ahead_ = std::move(ahead);
      loaded_ahead_ = true;
    }
  } catch (const std::exception& error) {
    if (ahead_problem_ != error.what()) {
      log_warning("the models cannot be loaded ahead", {{"detail", error.what()}});
    }
    ahead_problem_ = error.what();
  }
}

// Makes the models from the storage again, if it can be written.
void EngineCore::repair() {
  ready_ = false;
  if (clock_.uptime() < next_repair_ || !housekeeping_.wait_for_room(Wait(0))) {
    return;
  }
  try {
    follow();
    storage_->log().probe();
    recover();
    writer_.reset();
    broken_ = false;
    ready_ = true;
    set_problem("");
    log_info("the models agree with the log again");
  } catch (const std::exception& error) {
    if (dynamic_cast<const ComputedElsewhere*>(&error) != nullptr) {
      storage_->give_back();  // for a node that can
    }
    if (why_not_ready() != error.what()) {
      log_error("the storage still fails", {{"detail", error.what()}});
    }
    set_problem(error.what());
    if (ahead_ && !load_ahead_) {  // another node took over
      ahead_.reset();
      host_.clear();
    }
    next_repair_ = clock_.uptime() + kRepairSeconds;
  }
}

// A storage that was taken away while nobody wrote would be noticed only by the next request.
void EngineCore::watch_lease() {
  if (!ready_ || broken_ || clock_.uptime() < next_lease_check_) {
    return;
  }
  next_lease_check_ = clock_.uptime() + kLeaseSeconds;
  if (!readable_) {
    host_.try_to_read();
    watch_reads();
  }
  if (const std::string loss = storage_->lease().loss(); !loss.empty()) {
    log_error("the storage was taken away", {{"detail", loss}});
    set_problem(loss);
    broken_ = true;
  }
}

// A storage that cannot be read refuses all new events, so nobody should send any.
void EngineCore::watch_reads() {
  const std::string& problem = host_.read_problem();
  const bool changed = readable_.exchange(problem.empty()) != problem.empty();
  if (changed && ready_) {
    set_problem(problem);
  }
}

void EngineCore::set_problem(const std::string& problem) {
  const std::lock_guard lock(reports_mutex_);
  problem_ = problem;
}

std::string EngineCore::why_not_ready() const {
  const std::lock_guard lock(reports_mutex_);
  return problem_;
}

}  // namespace mcnb
