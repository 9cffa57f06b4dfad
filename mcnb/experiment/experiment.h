#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/experiment/cell_store.h"
#include "mcnb/experiment/runner.h"

namespace mcnb {

struct ExperimentOptions {
  std::uint64_t rounds = 10'000;
  std::uint64_t seeds = 5;
  std::uint64_t first_seed = 1;
  std::uint64_t threads = 0;
};
const OptionTable<ExperimentOptions>& experiment_option_table();

// Policies compared in one environment: every policy with every seed, all of them in the same
// rounds at the same seed.
struct Experiment {
  EnvironmentSpec environment;
  std::vector<PolicySpec> policies;
  ExperimentOptions options;
  std::string description = {};  // of the environment, where it has one
};

// Seed by seed, so that all policies get equally far.
std::vector<Cell> cells_of(const Experiment& experiment);

// For watching an experiment from another thread.
struct ExperimentProgress {
  std::atomic<std::uint64_t> rounds_total{0};  // of the cells that had to be run; 0: not yet known
  std::atomic<std::size_t> cells_total{0};
  std::atomic<std::size_t> cells_kept{0};  // found in the store
  std::atomic<std::size_t> cells_done{0};  // kept or run
};

// Which part of the cells is run here, from 1: about as many as in every other part.
struct Shard {
  std::uint64_t part = 1;
  std::uint64_t count = 1;
};
// Reads "2/5". Throws Error (kUsage).
Shard parse_shard(const std::string& text);

// What became of cells that could not be played to their end, by their place: a policy whose
// network left the finite numbers, say.
using CellFailures = std::map<std::size_t, std::string>;

// Where results come from, and how many from each.
struct Origins {
  std::map<std::string, std::size_t> programs;
  std::map<std::string, std::size_t> machines;  // those that are known
  std::string first_date;                       // empty: none is known
  std::string last_date;

  void add(const Origin& origin);
};

struct CellRunOptions {
  std::uint64_t threads = 0;
  bool fresh = false;        // run again what the store has
  bool stored_only = false;  // run nothing, and take results of whatever program and data
  Shard shard = {};
  CellFailures* failures = nullptr;  // where kInput and kUsage go instead of ending all
  Origins* origins = nullptr;        // where those of all results go
};

// Runs the cells that the store does not have side by side, and saves each as soon as it is
// finished. The result of a cell is empty where it was not run: the run was stopped, or the cell
// belongs to another shard. Apart from the times, results do not depend on the number of threads,
// nor on which cells were kept. Throws what a cell throws, after stopping the others, unless it is
// one of the failures that are asked for.
std::vector<std::optional<CellResult>> run_cells(const std::vector<Cell>& cells,
                                                 const CellStore& store,
                                                 const CellRunOptions& options, RunControl& control,
                                                 ExperimentProgress& progress);

// All cells of an experiment, in the order of cells_of; fewer of them, in the same order, when it
// was stopped.
std::vector<CellResult> run_experiment(const Experiment& experiment, const CellStore& store,
                                       bool fresh, RunControl& control,
                                       ExperimentProgress& progress);

}  // namespace mcnb
