#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/plan/plan_run.h"
#include "mcnb/experiment/results/summary.h"
#include "mcnb/experiment/results/table_numbers.h"

namespace mcnb {

class SectionWriter;

// The part of a study that can be shown: the policies that finished their runs with every seed.
struct ShownStudy {
  const Study* study = nullptr;
  std::string name;       // of the environment
  std::string settings;   // other than its defaults and the axis, option=value:...
  std::string label;      // both, for people: "movielens, protocol=notebook"
  Experiment experiment;  // with those policies
  std::vector<CellResult> results;
  std::vector<PolicySummary> summaries;

  // The policy that all others are compared with; it may be missing from `summaries`.
  const std::string& first() const { return study->experiment.policies.front().label; }
  // nullptr if the policy is not shown.
  const PolicySummary* summary_of(const std::string& policy) const;
  // nullopt for the first policy itself, and if the first policy is not shown.
  std::optional<Difference> against_first(const PolicySummary& other) const;
  // A file name: "regret" becomes "regret-movielens-protocol-notebook".
  std::string file_of(const std::string& what) const;
};

// Everything about a study except its results.
ShownStudy described(const Plan& plan, const Study& study);

// The label, with the value of the axis if the environment has one: "movielens, users=50".
std::string name_of(const Plan& plan, const ShownStudy& shown);

// What can be shown of the results. Writes a note for every policy that failed, and for every study
// with missing runs, which is left out.
std::vector<ShownStudy> shown_studies(const Plan& plan, const PlanResults& results,
                                      SectionWriter& writer);

// Options of an environment that are not its defaults.
OptionValues settings_of(const EnvironmentSpec& spec);
// The plan's settings that change one of the environments, without the option of the axis.
OptionValues changed_settings(const Plan& plan, const std::vector<EnvironmentSpec>& specs);
// "a=1, b=2".
std::string settings_text(const OptionValues& settings, const std::string& between);
// The text with every character replaced that a file system or a shell may not accept.
std::string file_name(const std::string& text);

}  // namespace mcnb
