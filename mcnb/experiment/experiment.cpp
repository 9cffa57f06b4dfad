#include "mcnb/experiment/experiment.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <mutex>

#include "mcnb/base/error.h"
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
                 "runs side by side; 0: one per processor");
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

// Which part a cell belongs to: by chance, so that all parts take about as long, but the same on
// every machine.
std::uint64_t shard_of(const Cell& cell, std::uint64_t count) {
  std::string text =
      fmt::format("{} {} {} {}", cell.environment.name, cell.policy.label, cell.seed, cell.rounds);
  for (const OptionValues& options : {cell.environment.options, cell.policy.options}) {
    for (const auto& [name, value] : options) {
      text += fmt::format(" {}={}", name, value);
    }
  }
  return XXH3_64bits(text.data(), text.size()) % count + 1;
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

std::vector<std::optional<CellResult>> run_cells(const std::vector<Cell>& cells,
                                                 const CellStore& store,
                                                 const CellRunOptions& options, RunControl& control,
                                                 ExperimentProgress& progress) {
  std::vector<std::optional<CellResult>> results(cells.size());
  std::vector<std::size_t> missing;
  std::size_t kept = 0;
  std::uint64_t rounds = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    bool known = false;
    if (!options.fresh || options.stored_only) {
      std::optional<StoredCell> found =
          options.stored_only ? store.find_any(cells[i]) : store.find(cells[i]);
      known = found.has_value();
      if (known) {
        results[i] = std::move(found->result);
        if (options.origins != nullptr) {
          options.origins->add(found->origin);
        }
      }
      if (!known && options.failures != nullptr) {
        if (const std::optional<std::string> why = options.stored_only
                                                       ? store.find_any_failure(cells[i])
                                                       : store.find_failure(cells[i])) {
          (*options.failures)[i] = *why;
          known = true;
        }
      }
    }
    if (known) {
      ++kept;
    } else if (!options.stored_only &&
               shard_of(cells[i], options.shard.count) == options.shard.part) {
      missing.push_back(i);
      rounds += cells[i].rounds;
    }
  }
  progress.cells_kept += kept;
  progress.cells_done += kept;
  progress.cells_total += kept + missing.size();
  progress.rounds_total += rounds;

  std::mutex noting;
  ThreadPool threads(options.threads);
  threads.parallel_for(missing.size(), 1, [&](std::size_t begin, std::size_t) {
    const std::size_t i = missing[begin];
    if (control.stop) {
      return;
    }
    try {
      results[i] = run_cell(cells[i], control);
      if (results[i]) {
        store.save(cells[i], *results[i]);
        ++progress.cells_done;
        if (options.origins != nullptr) {
          const std::lock_guard lock(noting);
          options.origins->add(store.origin());
        }
      }
    } catch (const Error& error) {
      // kUsage: a policy that cannot take what this environment has.
      const bool is_its_own =
          error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kUsage;
      if (options.failures == nullptr || !is_its_own) {
        control.stop = true;
        throw;
      }
      store.save_failure(cells[i], error.what());
      ++progress.cells_done;
      const std::lock_guard lock(noting);
      (*options.failures)[i] = error.what();
    } catch (...) {
      control.stop = true;
      throw;
    }
  });
  return results;
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
