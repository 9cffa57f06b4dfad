#include "mcnb/experiment/section_writer.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "mcnb/base/table.h"

namespace mcnb {

std::optional<double> as_number(const std::string& text) {
  double value = 0.0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                   : std::nullopt;
}

const PolicySummary* Shown::summary_of(const std::string& policy) const {
  const auto found = std::ranges::find(summaries, policy, &PolicySummary::policy);
  return found == summaries.end() ? nullptr : &*found;
}

std::optional<Difference> Shown::against_first(const PolicySummary& other) const {
  const PolicySummary* own = summary_of(first());
  if (own == nullptr || own->policy == other.policy) {
    return std::nullopt;
  }
  return Difference{other.regret - own->regret,
                    compare_pairs(regrets_of(results_of(results, other.policy)),
                                  regrets_of(results_of(results, own->policy)))};
}

std::string Shown::file_of(const std::string& what) const {
  return what + "-" + name + (settings.empty() ? "" : "-" + file_name(settings));
}

OptionValues settings_of(const EnvironmentSpec& spec) {
  OptionValues settings = all_options(spec);
  const OptionValues defaults = all_options({spec.name, {}, nullptr});
  std::erase_if(settings,
                [&](const auto& option) { return defaults.at(option.first) == option.second; });
  return settings;
}

OptionValues changed_settings(const Plan& plan, const std::vector<EnvironmentSpec>& specs) {
  OptionValues changed;
  for (const EnvironmentSpec& spec : specs) {
    for (const auto& [name, value] : settings_of(spec)) {
      const bool varies = plan.axis && plan.axis->of_environment && plan.axis->option == name;
      if (plan.settings.contains(name) && !varies) {
        changed[name] = value;
      }
    }
  }
  return changed;
}

std::string settings_text(const OptionValues& settings, const std::string& between) {
  std::string text;
  for (const auto& [name, value] : settings) {
    text += (text.empty() ? "" : between) + name + "=" + value;
  }
  return text;
}

std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '.' ? c : '-';
  }
  return name;
}

std::string seeds_text(std::uint64_t seeds) {
  return seeds > 1 ? fmt::format(" (mean of {} seeds ± deviation)", seeds) : "";
}

std::string digits(const std::optional<double>& value) { return value ? number_text(*value) : ""; }

void add_digits(TableRow& row, const std::optional<Difference>& difference) {
  const bool judged = difference && difference->judged;
  row.push_back(difference ? number_text(difference->mean) : "");
  row.push_back(judged ? number_text(difference->judged->low) : "");
  row.push_back(judged ? number_text(difference->judged->high) : "");
  row.push_back(judged ? number_text(difference->judged->p_value) : "");
}

std::string with_deviation(double value, const std::optional<double>& deviation) {
  return deviation ? fmt::format("{:.0f} ± {:.0f}", value, *deviation)
                   : fmt::format("{:.0f}", value);
}

std::string percent_text(const std::optional<double>& value) {
  return value ? fmt::format("{:+.1f} %", *value) : "-";
}

std::string difference_text(const std::optional<Difference>& difference) {
  if (!difference) {
    return "-";
  }
  return difference->judged ? fmt::format("{:+.1f} [{:+.1f}, {:+.1f}]", difference->mean,
                                          difference->judged->low, difference->judged->high)
                            : fmt::format("{:+.1f} [-]", difference->mean);
}

std::string p_text(const std::optional<Difference>& difference) {
  if (!difference || !difference->judged) {
    return "-";
  }
  const double p = difference->judged->p_value;
  return p < 0.0001 ? "< 0.0001" : fmt::format("{:.4f}", p);
}

std::string about_differences(const std::string& first) {
  return fmt::format(
      "Differences are the regret of the other method less that of {0}, seed by seed, with their "
      "95 % interval: above zero {0} has less regret. A dash: nothing to judge by, one seed or "
      "differences that are all equal",
      first);
}

void SectionWriter::add_table(const std::string& name, const std::string& caption, Table for_people,
                              const Table& for_machines) {
  write_text_file(folder_ / (name + ".csv"), for_machines.csv());
  section_.tables.push_back({name, caption, std::move(for_people)});
}

std::string SectionWriter::extent() const {
  const ExperimentOptions& options = plan_.options;
  return options.seeds == 1
             ? fmt::format("{} rounds, seed {}", options.rounds, options.first_seed)
             : fmt::format("{} rounds, seeds {} to {}", options.rounds, options.first_seed,
                           options.first_seed + options.seeds - 1);
}

}  // namespace mcnb
