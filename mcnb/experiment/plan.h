#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/experiment.h"

namespace mcnb {

// What the picture of a plan shows.
enum class Figure {
  kCurves,     // regret over the rounds, a picture for every environment
  kRuntime,    // time against final regret, likewise
  kAxis,       // final regret against an option
  kBreakdown,  // where the time of a round goes
};

// An option that takes several values: of the environment, or of every policy.
struct Axis {
  bool of_environment = false;
  std::string option;
  std::vector<std::string> values;
};

// The points that policies are tuned over: all combinations of the options' values.
struct Grid {
  std::vector<std::string> policies;  // names
  std::vector<Axis> options;
};

// Runs that choose options and are never reported.
struct TuningPlan {
  std::uint64_t rounds = 2'000;
  std::uint64_t seeds = 2;
  std::uint64_t first_seed = 1'000'001;
  std::vector<Grid> grids;
};

// A line of figures that were published, for the values of the axis or by environment.
struct PublishedLine {
  std::string label;
  std::vector<std::string> at;
  std::vector<double> values;
  std::uint64_t rounds = 0;  // shown only beside runs of so many; 0: beside all
  OptionValues settings;     // by environment: shown only beside environments that have these
};

// A policy that has other options in some environments, or does not play there.
struct Replacement {
  std::vector<std::string> environments;  // names
  std::string policy;  // as the plan has it, perhaps with more options: what it is still called
  std::optional<std::string> by;  // empty: nothing
};

// All that a figure needs: who plays where, how long, over which options.
struct Plan {
  std::string name;  // of its file, without the ending
  std::string text;  // of its file
  std::string title;
  Figure figure = Figure::kCurves;
  std::vector<std::string> environments;  // name:option=value:...
  OptionValues settings;                  // of every environment, where it has that option
  std::vector<std::string> policies;      // name:option=value:...
  ExperimentOptions options;
  std::optional<Axis> axis;
  std::optional<Axis> lines;  // a line of the picture for each value, for every policy
  bool log_axis = false;
  bool order_of_arms = false;           // also measure how far the order of the arms changes
  std::vector<std::string> references;  // curves beside: sqrt (of the axis), sqrt-users
  std::string matched_to;               // a policy: the others' trainings get as many steps
  std::vector<Replacement> replacements;
  TuningPlan tuning;
  std::vector<PublishedLine> published;
};

// Reads a TOML file. Throws Error: kInput for a file that cannot be read, kUsage that names the
// file, line and field for anything unexpected in it.
Plan read_plan(const std::filesystem::path& path);
// The same where the file's text is known already.
Plan read_plan(const std::filesystem::path& path, const std::string& text);

// A policy of the plan that sets the option of an axis itself.
struct AxisClash {
  std::string policy;
  std::string option;
};
std::optional<AxisClash> find_clash(const Plan& plan);

// Throws Error (kUsage) for lists that flags have given a plan and that no file could: entries
// twice, or policies that set an option of an axis themselves.
void check_lists(const Plan& plan);

// The file of a plan: the path itself, or NAME.toml in the first of the folders that has one.
// Throws Error (kUsage) that lists the plans there are.
std::filesystem::path find_plan(const std::string& name_or_path,
                                const std::vector<std::filesystem::path>& folders);
std::vector<std::string> plan_names(const std::vector<std::filesystem::path>& folders);

// "name:option=value:..." taken apart. Throws Error (kUsage).
EnvironmentSpec parse_environment(const std::string& text);

// One experiment of a plan.
struct Study {
  std::string environment;  // as it was written
  std::string at;           // the value of an axis of the environment, else empty
  Experiment experiment;
};
// Every environment, and every value of an axis of the environment; policies multiplied by the
// values of axes of theirs. All share `data`. Throws Error (kUsage) for options that do not exist.
std::vector<Study> studies_of(const Plan& plan, const std::shared_ptr<DataSource>& data);

// Throws Error (kUsage) for an option that no environment of the plans has.
void check_settings(const OptionValues& settings, const std::vector<Plan>& plans);

// Policies as the values of an axis make them: "mcnb:gamma=0.2" of "mcnb".
std::vector<std::string> with_values(const std::vector<std::string>& policies, const Axis& axis);

// A policy with the options it has, whatever its label: "mcnb:gamma=0.2".
std::string written(const PolicySpec& policy);

// Throws Error (kUsage) where a seed of the tuning would be reported.
void check_tuning_seeds(const TuningPlan& tuning, const ExperimentOptions& options);

// All combinations of a grid that covers the policy, as policies; none where no grid does.
std::vector<PolicySpec> grid_of(const TuningPlan& tuning, const PolicySpec& policy);

}  // namespace mcnb
