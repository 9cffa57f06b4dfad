#pragma once

#include <string>
#include <vector>

#include "mcnb/experiment/plan.h"

namespace mcnb {

// What tuning, or matching the steps of trainings, has made of a policy.
struct ChosenOptions {
  std::string environment;
  std::string at;
  std::string policy;       // as the plan has it
  std::string chosen;       // as it was run
  std::size_t points = 0;   // that were tried; 0: matched
  double regret = 0.0;      // mean of the chosen point in the tuning runs
  std::uint64_t steps = 0;  // all gradient steps that the tuning of this policy took
};

struct StudyResults {
  Study study;  // with the policies as they were run, under their labels in the plan
  std::vector<CellResult> results;  // those that are there, in the order of cells_of
  std::size_t missing = 0;
  bool complete() const { return missing == 0; }
};

struct PlanResults {
  std::vector<StudyResults> studies;
  std::vector<ChosenOptions> chosen;
  std::size_t missing = 0;            // cells, tuning included, as far as they are known
  std::vector<std::string> failures;  // of cells that could not be played to their end
  std::size_t failed = 0;             // of those, the ones that belong to the studies
  double seconds = 0.0;               // in choosing and learning, of all cells, tuning included
};

struct PlanRunOptions {
  CellRunOptions cells;
  bool tune = false;
};

// Runs a plan in steps, of which each needs all cells of the one before: tuning (for every
// environment by itself); before it, where there is a policy that others are matched to, the tuning
// and the runs of that one; then all the rest. Where cells
// are missing after a step (stopped, or left to another shard) the later ones are counted missing.
// A point of a grid that fails is not chosen; a cell of a study that fails stays missing.
// Every environment is made once before the cells run, so that data is read by all threads.
// Throws as run_cells does.
PlanResults run_plan(const Plan& plan, std::vector<Study> studies, const CellStore& store,
                     const PlanRunOptions& options, RunControl& control,
                     ExperimentProgress& progress);

// Trainings that the usual schedule has in so many rounds.
std::uint64_t trainings_in(std::uint64_t rounds, const OptionValues& policy);

}  // namespace mcnb
