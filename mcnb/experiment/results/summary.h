#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/text_table.h"
#include "mcnb/experiment/results/statistics.h"
#include "mcnb/experiment/run/experiment.h"

namespace mcnb {

// One policy over all seeds.
struct PolicySummary {
  std::string policy;
  std::size_t seeds = 0;
  double regret = 0.0;  // mean over the seeds, like all below
  std::optional<double> deviation;
  // Regret less that of the first policy, corrected for the number of policies without the oracle.
  std::optional<PairedComparison> against_first;
  double reward = 0.0;
  double seconds = 0.0;
  double rounds_per_second = 0.0;
  std::optional<ClusterQuality> quality;  // over the last tenth of the measurements
  double training_steps = 0.0;
  double adaptation_steps = 0.0;
  double memory_bytes = 0.0;
};

// The results of one policy, one per seed, in the order of the seeds.
std::vector<CellResult> results_of(const std::vector<CellResult>& results,
                                   const std::string& policy);

std::vector<double> regrets_of(const std::vector<CellResult>& results);

// In the order of the experiment. Requires the results of all its cells.
std::vector<PolicySummary> summarise(const Experiment& experiment,
                                     const std::vector<CellResult>& results);

TextTable summary_for_people(const std::vector<PolicySummary>& summaries);
TextTable summary_for_machines(const std::vector<PolicySummary>& summaries);
// One row for every policy, seed and round at which regret or cluster quality was measured.
TextTable curves_table(const std::vector<CellResult>& results);
// All options, summaries, and the results of all cells.
std::string experiment_json(const Experiment& experiment,
                            const std::vector<PolicySummary>& summaries,
                            const std::vector<CellResult>& results);

}  // namespace mcnb
