#pragma once

#include <string>
#include <vector>

#include "mcnb/experiment/plan.h"

namespace mcnb {

// What tuning, matching the steps of trainings, or the environment has made of a policy.
struct ChosenOptions {
  std::string environment;
  std::string at;
  std::string policy;       // as the plan has it
  std::string chosen;       // as it was run
  std::size_t points = 0;   // that were tried; 0: none
  double regret = 0.0;      // mean of the chosen point in the tuning runs
  std::uint64_t steps = 0;  // all gradient steps that the tuning of this policy took
};

struct StudyResults {
  Study study;  // with the policies as they were run, under their labels in the plan
  std::vector<CellResult> results;  // those that are there, in the order of cells_of
  std::size_t missing = 0;
  bool complete() const { return missing == 0; }
};

// How far the order of the arms depends on an option: policies that differ in it look at the same
// state and the same rounds.
struct OrderOfArms {
  std::string value;         // of the option
  double correlation = 0.0;  // mean of Spearman's rank correlation with the first value's order
  double same_choice = 0.0;  // share of the rounds with the same choice
};

// A cell that could not be played to its end.
struct FailedCell {
  Cell cell;
  std::string why;  // with the policy and the seed
};

struct PlanResults {
  std::vector<StudyResults> studies;
  std::vector<ChosenOptions> chosen;
  std::size_t missing = 0;  // cells, tuning included, as far as they are known
  std::vector<FailedCell> failures;
  std::size_t failed = 0;             // of those, the ones that belong to the studies
  double seconds = 0.0;               // in choosing and learning, of all cells, tuning included
  Origins origins;                    // of all cells, tuning included
  std::vector<std::string> left_out;  // values of the axis, and why
  std::vector<OrderOfArms> order;     // where the plan asks for it, of its first study
};

struct PlanRunOptions {
  CellRunOptions cells;
  bool tune = false;
};

// Runs a plan in steps, of which each needs all cells of the one before: tuning (for every
// environment by itself); before it, where there is a policy that others are matched to, the tuning
// and the runs of that one; then all the rest. Where cells
// are missing after a step (stopped, or left to another shard) the later ones are counted missing.
// A point of a grid that fails is not chosen; where all do, the policy stays as it is. A cell of a
// study that fails stays missing; where it is one of the policy that others are matched to, the
// others of that study are left out.
// Every environment is made once before the cells run, so that data is read by all threads.
// Throws as run_cells does.
PlanResults run_plan(const Plan& plan, std::vector<Study> studies, const CellStore& store,
                     const PlanRunOptions& options, RunControl& control,
                     ExperimentProgress& progress);

// Of how many rounds the order of the arms is compared at the most, and of which.
inline constexpr std::uint64_t kOrderRounds = 2'000;
inline constexpr std::uint64_t kOrderStride = 20;

// Plays the first policy, and at every `stride`-th round asks for the scores of all others in its
// state. They differ in the value of an option. Nothing where it is stopped.
std::vector<OrderOfArms> compare_orders(const Experiment& experiment,
                                        const std::vector<PolicySpec>& specs,
                                        const std::vector<std::string>& values,
                                        std::uint64_t stride, const RunControl& control);

// Spearman's rank correlation; equal values share their mean rank. 1 where all values are equal on
// both sides, 0 where they are on one.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

// Trainings that the usual schedule has in so many rounds.
std::uint64_t trainings_in(std::uint64_t rounds, const OptionValues& policy);

}  // namespace mcnb
