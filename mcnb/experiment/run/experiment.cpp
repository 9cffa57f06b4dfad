#include "mcnb/experiment/run/experiment.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/base/thread_pool.h"

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

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const char* expected = "PART/COUNT with PART from 1 to COUNT, like 2/5";
  if (slash == std::string::npos) {
    refuse_option("shard", expected, text);
  }
  const Shard shard{parse_count("shard", {1, 1e6}, text.substr(0, slash)),
                    parse_count("shard", {1, 1e6}, text.substr(slash + 1))};
  if (shard.part > shard.count) {
    refuse_option("shard", expected, text);
  }
  return shard;
}

namespace {

// The part that a cell belongs to. A hash spreads the cells so that all parts take about as long,
// and gives the same part on every machine.
std::uint64_t shard_of(const Cell& cell, std::uint64_t count) {
  std::string text =
      fmt::format("{} {} {} {}", cell.environment.name, cell.policy.label, cell.seed, cell.rounds);
  for (const OptionValues& options : {cell.environment.options, cell.policy.options}) {
    for (const auto& [name, value] : options) {
      text += fmt::format(" {}={}", name, value);
    }
  }
  return hash_bytes(text) % count + 1;
}

}  // namespace

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
      } else if (!options_.stored_only &&
                 shard_of(cells_[i], options_.shard.count) == options_.shard.part) {
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
    const Cell& cell = cells_[i];
    try {
      results_[i] = run_cell(cell, control_, options_.device);
      if (results_[i]) {
        store_.save(cell, *results_[i]);
        ++progress_.cells_done;
        const std::lock_guard lock(mutex_);
        note(store_.origin());
      }
    } catch (const Error& error) {
      if (!may_fail(error)) {
        control_.stop = true;
        throw error.within(cell_text(cell));
      }
      store_.save_failure(cell, error.what());
      ++progress_.cells_done;
      const std::lock_guard lock(mutex_);
      (*options_.failures)[i] = error.what();
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
  std::mutex mutex_;  // guards failures and origins
  std::vector<std::optional<CellResult>> results_;
};

}  // namespace

std::vector<std::optional<CellResult>> run_cells(const std::vector<Cell>& cells,
                                                 const CellStore& store,
                                                 const CellRunOptions& options, RunControl& control,
                                                 ExperimentProgress& progress) {
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
