#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "mcnb/serve/engine/saved_state.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

struct EngineOptions {
  std::filesystem::path folder;    // of the data; unused if the engine is given a storage
  std::string url;                 // of a PostgreSQL store, instead of the folder
  std::size_t threads = 0;         // of the policies; 0: one per processor
  std::size_t queue_limit = 1024;  // tasks
  double wait_seconds = 10.0;      // a task that has waited longer is refused, not computed
  double decision_seconds = 10.0;  // the most that one decision may take, by an estimate
  // Decisions that take longer, by an estimate, are computed in parts. A part takes as long as the
  // small tasks beside it, but at least so long.
  double large_seconds = 0.03;
  double least_part_seconds = 0.004;
  // That all models, their snapshots and waiting tasks may take together; 0: three quarters of what
  // the machine or the cgroup has.
  double memory_bytes = 0.0;
  std::uint64_t most_copied = kMostCopied;           // of a snapshot, see SavedState
  double restart_seconds = 10.0;                     // how long a restart may replay the log
  std::uint64_t log_bytes = std::uint64_t{8} << 30;  // above this size the oldest rows are erased
  double log_days = 90.0;                            // rows that are older are erased
  double idempotency_hours = 24.0;  // for which the id of every event is recognised; 0: not at all
  double verify_bytes = 4e6;        // of the log that are verified in a second; 0: none
  std::filesystem::path series_file;  // of the time series; empty: they are kept in memory only
  bool series = true;  // whether decisions and their rewards enter the time series
  StoreOptions store;
  double trim_seconds = 1.0;  // between two checks of the log's size and age
  // If the clock is more than a day ahead of the log's last event at the start, it may be wrong:
  // nothing is erased because of its age for so long.
  double doubt_seconds = 86'400.0;
};

}  // namespace mcnb
