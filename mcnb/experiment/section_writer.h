#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/experiment/figures.h"
#include "mcnb/experiment/report.h"

namespace mcnb {

using TableRow = std::vector<std::string>;

// The whole text as a number.
std::optional<double> as_number(const std::string& text);

// The regret of a policy less that of the first: one sign in all tables.
struct Difference {
  double mean = 0.0;
  std::optional<PairedComparison> judged;
};

// What of a study is shown: the policies that were played to the end with every seed.
struct Shown {
  const Study* study = nullptr;
  std::string name;       // of the environment
  std::string settings;   // other than its defaults and the axis, option=value:...
  std::string label;      // both, for people: "movielens, protocol=notebook"
  Experiment experiment;  // with those policies
  std::vector<CellResult> results;
  std::vector<PolicySummary> summaries;

  // The policy that all others are held against, whether or not it is among those shown.
  const std::string& first() const { return study->experiment.policies.front().label; }
  const PolicySummary* summary_of(const std::string& policy) const;
  // Nothing for the first policy itself, and where it is not shown.
  std::optional<Difference> against_first(const PolicySummary& other) const;
  // "regret" -> "regret-movielens-protocol-notebook": a name for files.
  std::string file_of(const std::string& what) const;
};

// Options of an environment that are not its defaults.
OptionValues settings_of(const EnvironmentSpec& spec);
// Those settings of the plan that change one of the environments, but for its axis.
OptionValues changed_settings(const Plan& plan, const std::vector<EnvironmentSpec>& specs);
// "a=1, b=2".
std::string settings_text(const OptionValues& settings, const std::string& between);
// Characters that any file system and shell takes.
std::string file_name(const std::string& text);

// " (mean of 10 seeds ± deviation)", behind the title of a picture with bars; nothing for one seed.
std::string seeds_text(std::uint64_t seeds);

// For machines: all digits, and nothing where there is none.
std::string digits(const std::optional<double>& value);
// Appends difference, low, high and p, likewise.
void add_digits(TableRow& row, const std::optional<Difference>& difference);
// For people: "164 ± 8", "+12.0 [+3.1, +20.9]", "+8.1 %", "< 0.0001"; "-" where there is none.
std::string with_deviation(double value, const std::optional<double>& deviation);
std::string difference_text(const std::optional<Difference>& difference);
std::string p_text(const std::optional<Difference>& difference);
std::string percent_text(const std::optional<double>& value);
// A sentence that says what differences are, for captions.
std::string about_differences(const std::string& first);

// Puts tables and pictures into a section and its folder.
class SectionWriter {
 public:
  SectionWriter(std::filesystem::path folder, const Plan& plan)
      : folder_(std::move(folder)), plan_(plan) {
    section_.name = plan.name;
    section_.title = plan.title;
  }

  Section& section() { return section_; }
  const std::filesystem::path& folder() const { return folder_; }

  void note(std::string text) { section_.notes.push_back(std::move(text)); }

  // The CSV file has the table for machines.
  void add_table(const std::string& name, const std::string& caption, Table for_people,
                 const Table& for_machines);

  // A picture that `draw` cannot draw is a note.
  template <class Draw>
  void add_picture(const std::string& name, const std::string& caption, const Draw& draw) {
    try {
      draw();
      section_.pictures.push_back({name, caption});
    } catch (const Error& error) {
      note(fmt::format("no picture {}: {}", name, error.what()));
    }
  }

  // "10000 rounds, seeds 1 to 10", and both numbers.
  std::string extent() const;
  std::string rounds() const { return std::to_string(plan_.options.rounds); }
  std::string seeds() const { return std::to_string(plan_.options.seeds); }

  // Whether it was published for as many rounds.
  bool applies(const PublishedLine& line) const {
    return line.rounds == 0 || line.rounds == plan_.options.rounds;
  }

 private:
  std::filesystem::path folder_;
  const Plan& plan_;
  Section section_;
};

}  // namespace mcnb
