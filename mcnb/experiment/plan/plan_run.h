#pragma once

#include <string>
#include <vector>

#include "mcnb/experiment/plan/plan.h"
#include "mcnb/experiment/run/rank_correlation.h"

namespace mcnb {

// A policy that was run with other options than its name says, because of tuning, matching the
// steps of trainings, or the kind of the environment.
struct ChosenOptions {
  std::string environment;
  std::string at;
  std::string policy;       // as the plan names it
  std::string chosen;       // as it was run, or why its trainings could not be matched
  std::size_t points = 0;   // combinations of options that were tried; 0: it was not tuned
  double regret = 0.0;      // mean of the chosen combination in the tuning runs
  std::uint64_t steps = 0;  // all gradient steps that the tuning of this policy took
  bool matched = true;      // false if its trainings should have been matched and could not be
};

struct StudyResults {
  Study study;  // its policies have the options they were run with, and their labels in the plan
  std::vector<CellResult> results;  // of all finished cells, in the order of cells_of
  std::size_t missing = 0;
  bool complete() const { return missing == 0; }
};

// A cell that could not be played to its end.
struct FailedCell {
  Cell cell;
  std::string why;
};

struct PlanResults {
  std::vector<StudyResults> studies;
  std::vector<ChosenOptions> chosen;
  std::size_t missing = 0;  // cells, tuning included, as far as they are known by now
  std::vector<FailedCell> failures;
  std::size_t failed = 0;             // failures of cells of the studies, tuning excluded
  double seconds = 0.0;               // of choosing and learning in all cells, tuning included
  Origins origins;                    // of all cells, tuning included
  std::vector<std::string> left_out;  // values of the axis, and why
  std::vector<RankAgreement> rank_agreement;  // in the first study, if plan.order_of_arms is set
};

struct PlanRunOptions {
  CellRunOptions cells;
  bool tune = false;
};

// Runs a plan in steps; each step needs all cells of the one before:
// 1. If the plan has `matched_to`: the tuning and the runs of that policy.
// 2. The tuning of all (other) policies, for every environment separately.
// 3. All remaining runs.
// If cells are missing after a step (it was stopped), all cells of
// the later steps count as missing. A combination of options that fails is not chosen; if all fail,
// the policy keeps its options. A cell of a study that fails stays missing; if it is one of
// `matched_to`, the other policies of that study are left out. Makes every environment once before
// the cells run, so that all threads share its data. Throws as run_cells does.
PlanResults run_plan(const Plan& plan, std::vector<Study> studies, const CellStore& store,
                     const PlanRunOptions& options, RunControl& control,
                     ExperimentProgress& progress);

// The number of trainings in so many rounds, by the options of the policy's schedule.
std::uint64_t trainings_in(std::uint64_t rounds, const OptionValues& policy);

}  // namespace mcnb
