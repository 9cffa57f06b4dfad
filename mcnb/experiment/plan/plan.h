#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/run/experiment.h"

namespace mcnb {

// The kind of a plan's figure. figures.h has a function for each; plan_file.cpp has their names.
enum class Figure {
  kCurves,     // regret over the rounds, a picture for every environment
  kRuntime,    // time against final regret, a picture for every environment
  kAxis,       // final regret against an option
  kBreakdown,  // seconds of the parts of a round
  kRun,        // the comparison of `mcnb run`; no file can ask for it
};

// An option of the environment, or of every policy, that takes several values.
struct Axis {
  bool of_environment = false;
  std::string option;
  std::vector<std::string> values;
};

// The options to try when policies are tuned: all combinations of the values.
struct Grid {
  std::vector<std::string> policies;  // names
  std::vector<Axis> options;
};

// The runs that choose options. They are never reported.
struct TuningPlan {
  std::uint64_t rounds = 2'000;
  std::uint64_t seeds = 2;
  std::uint64_t first_seed = 1'000'001;
  std::vector<Grid> grids;
};

// A line of published numbers, one for each value of the axis or for each environment.
struct PublishedLine {
  std::string label;
  std::vector<std::string> at;
  std::vector<double> values;
  std::uint64_t rounds = 0;  // shown only beside runs of so many rounds; 0: beside all runs
  OptionValues settings;     // shown only beside environments with these options
};

// Gives a policy other options in some environments, or leaves it out there.
struct Replacement {
  std::vector<std::string> environments;  // names
  std::string policy;                     // a policy of the plan, which keeps this name
  std::optional<std::string> by;          // the policy whose options it takes; "": it is left out
};

// Everything that a figure needs: policies, environments, rounds, options.
struct Plan {
  std::string name;  // of its file, without the ending
  std::string text;  // contents of its file
  std::string title;
  Figure figure = Figure::kCurves;
  std::vector<std::string> environments;  // name:option=value:...
  OptionValues settings;                  // of every environment that has the option
  std::vector<std::string> policies;      // name:option=value:...
  ExperimentOptions options;
  std::optional<Axis> axis;
  std::optional<Axis> lines;  // every policy has a line of the picture for each of these values
  bool log_axis = false;
  bool order_of_arms = false;  // also measure how far the order of the arms changes along the axis
  std::vector<std::string> references;  // curves to draw as well: sqrt (of the axis), sqrt-users
  std::string matched_to;  // a policy; the trainings of the others get as many steps as it took
  std::vector<Replacement> replacements;
  TuningPlan tuning;
  std::vector<PublishedLine> published;
};

// Reads a TOML file. Throws Error: kInput if the file cannot be read; kUsage, with the file, line
// and field, for anything unexpected in it.
Plan read_plan(const std::filesystem::path& path);
// Reads the text of a file. The path gives the plan its name and is named in errors.
Plan read_plan(const std::filesystem::path& path, const std::string& text);

// A policy of the plan that sets the option of the axis itself.
struct AxisClash {
  std::string policy;
  std::string option;
};
std::optional<AxisClash> find_clash(const Plan& plan);

// Checks the environments and policies that flags have put into a plan. Throws Error (kUsage) for
// an empty list, an entry that occurs twice, and a policy that sets the option of an axis.
void check_lists(const Plan& plan);

// The file of a plan: a path that ends in .toml, or NAME.toml in the first of the folders that has
// it. Throws Error (kUsage) with the names of all plans if there is no such file.
std::filesystem::path find_plan(const std::string& name_or_path,
                                const std::vector<std::filesystem::path>& folders);
std::vector<std::string> plan_names(const std::vector<std::filesystem::path>& folders);

// The names of the plans that make the paper's figures, in the paper's order: what `mcnb reproduce
// all` makes.
const std::vector<std::string>& paper_plans();

// Reads "name:option=value:...". Throws Error (kUsage).
EnvironmentSpec parse_environment(const std::string& text);

// One experiment of a plan.
struct Study {
  std::string environment;  // as the plan names it
  std::string at;           // the value of an axis of the environment, else empty
  Experiment experiment;
};
// One study for every environment and every value of an axis of the environment. Axes of the
// policies multiply the policies of each study. All studies share `data`. Throws Error (kUsage) for
// options that do not exist.
std::vector<Study> studies_of(const Plan& plan, const std::shared_ptr<DataSource>& data);

// Throws Error (kUsage) for a setting that no environment of the plans has.
void check_settings(const OptionValues& settings, const std::vector<Plan>& plans);

// Every policy with every value of the axis: "mcnb:gamma=0.2" for "mcnb".
std::vector<std::string> with_values(const std::vector<std::string>& policies, const Axis& axis);

// The name and the options of a policy: "mcnb:gamma=0.2". Ignores the label.
std::string written(const PolicySpec& policy);

// True if a seed of the tuning runs is also a seed of the reported runs.
bool seeds_overlap(const TuningPlan& tuning, const ExperimentOptions& options);
// Throws Error (kUsage) if they overlap.
void check_tuning_seeds(const TuningPlan& tuning, const ExperimentOptions& options);

// The policy with all combinations of the grid that names it; empty if no grid does.
std::vector<PolicySpec> grid_of(const TuningPlan& tuning, const PolicySpec& policy);

}  // namespace mcnb
