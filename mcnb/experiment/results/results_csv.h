#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/results/table_numbers.h"

namespace mcnb {

// One row of a results file such as docs/results.csv: one policy of one plan in one environment.
struct ResultRow {
  std::string plan;
  std::string environment;
  std::string settings;  // of the environment, option=value:...
  std::string policy;
  std::uint64_t rounds = 0;
  std::uint64_t seeds = 0;
  double mean = 0.0;  // of the regret after all rounds
  std::optional<double> deviation;
  std::optional<Difference> difference;  // to the first policy; empty in that policy's own row
  // Means over the seeds, and the policy with the options it was run with. Empty if a file does not
  // have these columns.
  std::optional<double> seconds = {};
  std::optional<double> training_steps = {};
  std::optional<double> adaptation_steps = {};
  std::optional<double> memory_bytes = {};
  std::string as_run = {};
};

// The text of a results file with all columns.
std::string results_csv(const std::vector<ResultRow>& rows);

// Reads a CSV file whose first line names its columns, in any order. The columns plan, environment,
// settings, policy, rounds, seeds, mean, deviation, difference, low, high and p are required.
// Unknown columns are ignored, and Holm's p-values are computed anew from the rows of each table.
// Throws Error (kInput) that names the file and the line.
std::vector<ResultRow> read_results_csv(const std::filesystem::path& path);

// Markdown tables: an overview with one row for each plan, environment and settings (the first
// policy beside the best of the others), then one table of all policies for each of them. Rows keep
// the order of the file, and the first policy of a table is the one that others are compared with.
std::string results_markdown(const std::vector<ResultRow>& rows);

}  // namespace mcnb
