#include "mcnb/experiment/experiment.h"

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

std::vector<CellResult> run_experiment(const Experiment& experiment, const CellStore& store,
                                       bool fresh, RunControl& control,
                                       ExperimentProgress& progress) {
  experiment_option_table().validate(experiment.options);
  const std::vector<Cell> cells = cells_of(experiment);
  std::vector<std::optional<CellResult>> results(cells.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!fresh) {
      results[i] = store.find(cells[i]);
    }
    if (!results[i]) {
      missing.push_back(i);
    }
  }
  progress.cells_kept = cells.size() - missing.size();
  progress.cells_done = cells.size() - missing.size();
  progress.cells_total = cells.size();
  progress.rounds_total = missing.size() * experiment.options.rounds;

  ThreadPool threads(experiment.options.threads);
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
      }
    } catch (...) {
      control.stop = true;
      throw;
    }
  });

  std::vector<CellResult> finished;
  for (std::optional<CellResult>& result : results) {
    if (result) {
      finished.push_back(std::move(*result));
    }
  }
  return finished;
}

}  // namespace mcnb
