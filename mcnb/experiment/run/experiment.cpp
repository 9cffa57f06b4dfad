#include "mcnb/experiment/run/experiment.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/experiment/run/shared_cells.h"

namespace mcnb {

const OptionTable<ExperimentOptions>& experiment_option_table() {
  using Options = ExperimentOptions;
  static const OptionTable<Options> table =
      OptionTable<Options>()
          .count("rounds", &Options::rounds, {1, 1e9}, "rounds of every run")
          .count("seeds", &Options::seeds, {1, 1e5}, "runs of every policy")
          .count("first_seed", &Options::first_seed, {0, 1e15}, "seed of the first run")
          .count("threads", &Options::threads, {0, static_cast<double>(ThreadPool::kMaxThreads)},
                 "runs at the same time; 0: one per processor");
  return table;
}

std::vector<Cell> cells_of(const Experiment& experiment) {
  std::vector<Cell> cells;
  for (std::uint64_t i = 0; i < experiment.options.seeds; ++i) {
    for (const PolicySpec& policy : experiment.policies) {
      cells.push_back({experiment.environment, policy, experiment.options.first_seed + i,
                       experiment.options.rounds});
    }
  }
  return cells;
}

void Origins::add(const Origin& origin) {
  ++programs[origin.program];
  if (!origin.machine.empty()) {
    ++machines[origin.machine];
  }
  if (!origin.date.empty()) {
    first_date = first_date.empty() ? origin.date : std::min(first_date, origin.date);
    last_date = std::max(last_date, origin.date);
  }
}

namespace {

// Some cells on their way to results.
class CellRun {
 public:
  CellRun(const std::vector<Cell>& cells, const CellStore& store, const CellRunOptions& options,
          RunControl& control, ExperimentProgress& progress)
      : cells_(cells),
        store_(store),
        options_(options),
        control_(control),
        progress_(progress),
        results_(cells.size()) {}

  std::vector<std::optional<CellResult>> run() {
    const std::vector<std::size_t> missing = find_missing();
    ThreadPool threads(options_.threads);
    if (store_.claims() != nullptr && !missing.empty()) {
      share(missing, threads);
      return std::move(results_);
    }
    threads.parallel_for(missing.size(), 1, [&](std::size_t begin, std::size_t) {
      if (!control_.stop) {
        run_one(missing[begin]);
      }
    });
    return std::move(results_);
  }

 private:
  // Takes what the store has. Returns the cells that are left for this program.
  std::vector<std::size_t> find_missing() {
    std::vector<std::size_t> missing;
    std::uint64_t rounds = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (is_stored(i)) {
        ++kept;
      } else if (!options_.stored_only) {
        missing.push_back(i);
        rounds += cells_[i].rounds;
      }
    }
    progress_.cells_kept += kept;
    progress_.cells_done += kept;
    progress_.cells_total += kept + missing.size();
    progress_.rounds_total += rounds;
    return missing;
  }

  bool is_stored(std::size_t i) {
    if (options_.fresh && !options_.stored_only) {
      return false;
    }
    const Cell& cell = cells_[i];
    std::optional<StoredCell> found =
        options_.stored_only ? store_.find_any(cell) : store_.find(cell);
    if (found) {
      results_[i] = std::move(found->result);
      note(found->origin);
      return true;
    }
    if (options_.failures == nullptr) {
      return false;
    }
    const std::optional<std::string> why =
        options_.stored_only ? store_.find_any_failure(cell) : store_.find_failure(cell);
    if (why) {
      (*options_.failures)[i] = *why;
    }
    return why.has_value();
  }

  void run_one(std::size_t i) {
    const std::optional<Played> played = play_one(i);
    if (!played) {
      return;
    }
    if (played->result) {
      store_.save(cells_[i], *played->result);
    } else {
      store_.save_failure(cells_[i], played->failure);
    }
    ++progress_.cells_done;
    const std::lock_guard lock(mutex_);
    if (played->result) {
      results_[i] = played->result;
      note(store_.origin());
    } else {
      (*options_.failures)[i] = played->failure;
    }
  }

  // Runs cells together with other programs, and takes all results from the store.
  void share(const std::vector<std::size_t>& missing, ThreadPool& threads) {
    std::set<std::size_t> own;  // guarded by mutex_
    SharedCells shared(store_, cells_, missing, control_.stop, [&](std::size_t i) {
      const std::lock_guard lock(mutex_);
      const bool found = is_stored(i);
      progress_.cells_done += found ? 1 : 0;
      control_.rounds_done += found && !own.contains(i) ? cells_[i].rounds : 0;
      return found;
    });
    threads.parallel_for(threads.thread_count(), 1, [&](std::size_t, std::size_t) {
      try {
        while (const std::optional<SharedCells::Claimed> claimed = shared.next()) {
          const std::size_t i = claimed->index;
          {
            const std::lock_guard lock(mutex_);
            own.insert(i);
          }
          run_claimed(*claimed, shared);
        }
      } catch (...) {
        control_.stop = true;
        throw;
      }
    });
  }

  void run_claimed(const SharedCells::Claimed& claimed, SharedCells& shared) {
    const Cell& cell = cells_[claimed.index];
    std::optional<Played> played;
    try {
      played = play_one(claimed.index);
    } catch (...) {
      shared.give_back(claimed);
      throw;
    }
    if (!played) {
      shared.give_back(claimed);
      return;
    }
    const CellRow row = played->result ? store_.row_of(cell, *played->result)
                                       : store_.failure_row(cell, played->failure);
    shared.finish(claimed, row.result);
  }

  // What came of a cell: its result, or why it failed.
  struct Played {
    std::optional<CellResult> result;
    std::string failure;
  };

  // nullopt if it was stopped.
  std::optional<Played> play_one(std::size_t i) {
    try {
      std::optional<CellResult> result = run_cell(cells_[i], control_, options_.device);
      return result ? std::optional(Played{std::move(result), {}}) : std::nullopt;
    } catch (const Error& error) {
      if (!may_fail(error)) {
        control_.stop = true;
        throw error.within(cell_text(cells_[i]));
      }
      return Played{{}, error.what()};
    } catch (...) {
      control_.stop = true;
      throw;
    }
  }

  // kUsage: the policy cannot play in this environment. What a GPU lacks the CPU may have, so its
  // failures are not kept.
  bool may_fail(const Error& error) const {
    return options_.failures != nullptr && options_.device == Device::kCpu &&
           (error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kUsage);
  }

  void note(const Origin& origin) {
    if (options_.origins != nullptr) {
      options_.origins->add(origin);
    }
  }

  const std::vector<Cell>& cells_;
  const CellStore& store_;
  const CellRunOptions& options_;
  RunControl& control_;
  ExperimentProgress& progress_;
  std::mutex mutex_;  // guards results, failures and origins
  std::vector<std::optional<CellResult>> results_;
};

}  // namespace

std::vector<std::optional<CellResult>> run_cells(const std::vector<Cell>& cells,
                                                 const CellStore& store,
                                                 const CellRunOptions& options, RunControl& control,
                                                 ExperimentProgress& progress) {
  if (options.fresh && store.claims() != nullptr) {
    throw Error(ErrorKind::kUsage,
                "option fresh: a database is shared with other programs, so runs that it has are "
                "not repeated: take an empty database, or results in a file");
  }
  return CellRun(cells, store, options, control, progress).run();
}

std::vector<CellResult> run_experiment(const Experiment& experiment, const CellStore& store,
                                       bool fresh, RunControl& control,
                                       ExperimentProgress& progress) {
  experiment_option_table().validate(experiment.options);
  std::vector<CellResult> finished;
  for (std::optional<CellResult>& result :
       run_cells(cells_of(experiment), store,
                 {.threads = experiment.options.threads, .fresh = fresh}, control, progress)) {
    if (result) {
      finished.push_back(std::move(*result));
    }
  }
  return finished;
}

}  // namespace mcnb
