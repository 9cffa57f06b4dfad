#include "mcnb/experiment/report/shown_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "mcnb/experiment/report/section_writer.h"

namespace mcnb {
namespace {

bool belongs_to(const Cell& cell, const Experiment& experiment, const std::string& policy) {
  const std::uint64_t seed = cell.seed - experiment.options.first_seed;  // huge for a lower seed
  return cell.environment.name == experiment.environment.name &&
         cell.environment.options == experiment.environment.options &&
         cell.policy.label == policy && seed < experiment.options.seeds;
}

// Decides what of a plan's results can be shown, and notes the rest.
class StudyChooser {
 public:
  StudyChooser(const Plan& plan, const PlanResults& results, SectionWriter& writer)
      : plan_(plan), results_(results), writer_(writer) {}

  std::vector<ShownStudy> choose() {
    std::vector<ShownStudy> all;
    for (const StudyResults& study : results_.studies) {
      if (std::optional<ShownStudy> shown = show(study)) {
        all.push_back(std::move(*shown));
      }
    }
    for (const FailedCell& failure : results_.failures) {
      if (std::ranges::count(named_, &failure) == 0) {
        const Cell& cell = failure.cell;
        writer_.note(fmt::format("failed in tuning, and not chosen: {}: {}, seed {}: {}",
                                 cell.environment.name, cell.policy.label, cell.seed, failure.why));
      }
    }
    return all;
  }

 private:
  // Leaves out policies that failed. A study with runs that may still come is left out as a whole.
  std::optional<ShownStudy> show(const StudyResults& from) {
    ShownStudy shown = described(plan_, from.study);
    const Experiment& experiment = from.study.experiment;
    std::size_t missing = 0;
    shown.experiment = experiment;
    std::erase_if(shown.experiment.policies, [&](const PolicySpec& policy) {
      const std::size_t finished = results_of(from.results, policy.label).size();
      const std::size_t lacking = experiment.options.seeds - finished;
      if (lacking > 0 && !note_failures(shown, experiment, policy.label)) {
        missing += lacking;
        return false;
      }
      return lacking > 0;
    });
    if (missing > 0) {
      writer_.note(fmt::format("{}: {} missing; mcnb reproduce goes on", name_of(plan_, shown),
                               runs_are(missing)));
      return std::nullopt;
    }
    if (shown.experiment.policies.empty()) {
      return std::nullopt;
    }
    for (const CellResult& result : from.results) {
      if (std::ranges::count(shown.experiment.policies, result.policy, &PolicySpec::label) > 0) {
        shown.results.push_back(result);
      }
    }
    shown.summaries = summarise(shown.experiment, shown.results);
    return shown;
  }

  // Notes why runs of the policy failed; returns false if none did.
  bool note_failures(const ShownStudy& shown, const Experiment& experiment,
                     const std::string& policy) {
    std::vector<const FailedCell*> found;
    for (const FailedCell& failure : results_.failures) {
      if (belongs_to(failure.cell, experiment, policy)) {
        found.push_back(&failure);
      }
    }
    if (found.empty()) {
      return false;
    }
    const std::string more =
        found.size() == 1
            ? ""
            : fmt::format(" (and {} more seed{})", found.size() - 1, found.size() == 2 ? "" : "s");
    writer_.note(fmt::format("{}: {} failed and is left out: seed {}: {}{}", name_of(plan_, shown),
                             policy, found.front()->cell.seed, found.front()->why, more));
    named_.insert(named_.end(), found.begin(), found.end());
    return true;
  }

  const Plan& plan_;
  const PlanResults& results_;
  SectionWriter& writer_;
  std::vector<const FailedCell*> named_;  // failures that have a note
};

}  // namespace

const PolicySummary* ShownStudy::summary_of(const std::string& policy) const {
  const auto found = std::ranges::find(summaries, policy, &PolicySummary::policy);
  return found == summaries.end() ? nullptr : &*found;
}

std::optional<Difference> ShownStudy::against_first(const PolicySummary& other) const {
  const PolicySummary* own = summary_of(first());
  if (own == nullptr || own->policy == other.policy) {
    return std::nullopt;
  }
  return Difference{other.regret - own->regret, other.against_first};
}

std::string ShownStudy::file_of(const std::string& what) const {
  return what + "-" + name + (settings.empty() ? "" : "-" + file_name(settings));
}

ShownStudy described(const Plan& plan, const Study& study) {
  const EnvironmentSpec& spec = study.experiment.environment;
  OptionValues settings = settings_of(spec);
  if (plan.axis && plan.axis->of_environment) {
    settings.erase(plan.axis->option);
  }
  ShownStudy shown{.study = &study, .name = spec.name, .settings = settings_text(settings, ":")};
  shown.label = spec.name + (settings.empty() ? "" : ", " + settings_text(settings, ", "));
  return shown;
}

std::string name_of(const Plan& plan, const ShownStudy& shown) {
  return shown.study->at.empty()
             ? shown.label
             : fmt::format("{}, {}={}", shown.label, plan.axis->option, shown.study->at);
}

std::vector<ShownStudy> shown_studies(const Plan& plan, const PlanResults& results,
                                      SectionWriter& writer) {
  return StudyChooser(plan, results, writer).choose();
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

}  // namespace mcnb
