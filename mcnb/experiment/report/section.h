#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/text_table.h"
#include "mcnb/experiment/plan/plan_run.h"
#include "mcnb/experiment/results/results_csv.h"
#include "mcnb/experiment/results/statistics.h"

namespace mcnb {

struct NamedTable {
  std::string name;  // of its CSV file, without the ending
  std::string caption;
  TextTable for_people;
};

struct NamedPicture {
  std::string name;  // of its files, without their endings
  std::string caption;
};

// The policy with the least mean regret in one environment, beside the next one.
struct Winner {
  std::string environment;
  std::string policy;
  double regret = 0.0;
  std::string runner_up;
  double other_regret = 0.0;
  std::optional<PairedComparison> against;  // the runner-up's regret less the winner's
};

// The results of one plan, ready to be shown: one section of the page.
struct Section {
  std::string name;
  std::string title;
  std::string settings;  // that differ from the defaults; sections of one plan differ in them
  std::vector<std::string> notes;
  std::vector<Winner> winners;  // by environment
  std::vector<NamedTable> tables;
  std::vector<NamedPicture> pictures;
  std::vector<std::string> files;  // names of the text files that were written
  std::vector<ResultRow> results;  // the rows of all tables of policies
  double seconds = 0.0;            // of all runs, in choosing and learning
  Origins origins;                 // of all runs
};

// Draws the pictures of a plan and makes its tables, into the folder: pictures as PNG, SVG, PDF and
// LaTeX, all tables as LaTeX, and as CSV with nothing but numbers in their columns of numbers, all
// curves in curves.csv. Titles, captions and file names contain the settings of an environment that
// are not its defaults. A policy that failed is left out and named in a note, and so is a study
// with missing runs. A picture that gnuplot cannot draw becomes a note. Throws Error (kSystem) if a
// file cannot be written.
Section make_section(const std::filesystem::path& folder, const Plan& plan,
                     const PlanResults& results);

}  // namespace mcnb
