#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/experiment/run/cell_store.h"
#include "mcnb/experiment/run/runner.h"

namespace mcnb {

struct ExperimentOptions {
  std::uint64_t rounds = 10'000;
  std::uint64_t seeds = 5;
  std::uint64_t first_seed = 1;
  std::uint64_t threads = 0;
};
const OptionTable<ExperimentOptions>& experiment_option_table();

// Policies compared in one environment: every policy runs with every seed. Policies with equal
// seeds meet equal rounds.
struct Experiment {
  EnvironmentSpec environment;
  std::vector<PolicySpec> policies;
  ExperimentOptions options;
  std::string description = {};  // of the environment; may be empty
};

// All cells, seed by seed: an interrupted experiment then has about as many of every policy.
std::vector<Cell> cells_of(const Experiment& experiment);

// For another thread, to watch an experiment.
struct ExperimentProgress {
  std::atomic<std::uint64_t> rounds_total{0};  // of the cells that have to be run; 0: not yet known
  std::atomic<std::size_t> cells_total{0};
  std::atomic<std::size_t> cells_kept{0};  // found in the store
  std::atomic<std::size_t> cells_done{0};  // kept or run
};

// Why cells could not finish, by their index: a network left the finite numbers, for example.
using CellFailures = std::map<std::size_t, std::string>;

// The programs, machines and days that made some results, with the number of results of each.
struct Origins {
  std::map<std::string, std::size_t> programs;
  std::map<std::string, std::size_t> machines;  // without results of unknown machines
  std::string first_date;                       // empty: no date is known
  std::string last_date;

  void add(const Origin& origin);
};

struct CellRunOptions {
  std::uint64_t threads = 0;
  bool fresh = false;            // run again what the store has
  bool stored_only = false;      // run nothing, and accept results of any program and data
  Device device = Device::kCpu;  // results do not depend on it, apart from times
  // If set, receives the failures of kinds kInput and kUsage, which otherwise end the whole run.
  CellFailures* failures = nullptr;
  Origins* origins = nullptr;  // if set, receives the origins of all results
};

// Runs the cells that the store does not have, in parallel, and saves each as soon as it is
// finished. If programs share the store, each cell is run by one of them, and this call ends when
// all cells have results. The result of a cell is empty if the run was stopped before. Apart from
// times, results depend neither on the number of threads nor on which cells were stored before. If
// a cell throws an Error that `failures` does not take, stops the other cells and throws it with
// the cell's name.
std::vector<std::optional<CellResult>> run_cells(const std::vector<Cell>& cells,
                                                 const CellStore& store,
                                                 const CellRunOptions& options, RunControl& control,
                                                 ExperimentProgress& progress);

// The results of an experiment in the order of cells_of; only the finished ones if it was stopped.
std::vector<CellResult> run_experiment(const Experiment& experiment, const CellStore& store,
                                       bool fresh, RunControl& control,
                                       ExperimentProgress& progress);

}  // namespace mcnb
