#include "mcnb/experiment/plan/plan_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

class PlanChecker {
 public:
  PlanChecker(const Plan& plan, const PlanSource& source) : plan_(plan), source_(source) {}

  void check() const {
    if (plan_.environments.empty() || plan_.policies.empty()) {
      refuse("", "environments, policies", "both, with at least one entry");
    }
    check_axis();
    check_policies();
    check_entries();
    check_distinct("environments", "environments", plan_.environments);
    check_distinct("policies", "policies", plan_.policies);
    check_settings_table();
    check_environments_differ();
    check_log_axis();
    if (!plan_.tuning.grids.empty() && seeds_overlap(plan_.tuning, plan_.options)) {
      refuse("tune", "first_seed", "seeds that are not reported");
    }
  }

 private:
  // `field` gives the line; the message names `about`.
  [[noreturn]] void refuse(const std::string& field, const std::string& about,
                           const std::string& expected) const {
    throw PlanFileError(ErrorKind::kUsage, source_, source_.line_of(field),
                        fmt::format("{}: expected {}", about, expected));
  }

  // Calls `body` and adds the line of the field to its errors.
  template <class Body>
  void at_field(const std::string& line_field, const char* field, const Body& body) const {
    try {
      body();
    } catch (const PlanFileError&) {
      throw;
    } catch (const Error& error) {
      throw PlanFileError(ErrorKind::kUsage, source_, source_.line_of(line_field),
                          fmt::format("{}: {}", field, error.what()));
    }
  }

  void check_axis() const {
    const bool is_axis = plan_.figure == Figure::kAxis;
    const bool may_have_axis = is_axis || plan_.figure == Figure::kBreakdown;
    if (plan_.axis ? !may_have_axis : is_axis) {
      refuse("", "axis", "[axis] with figure = \"axis\" or \"breakdown\", and only there");
    }
    for (const std::string& reference : plan_.references) {
      if (reference != "sqrt" && reference != "sqrt-users") {
        refuse("references", "references", "sqrt, sqrt-users");
      }
    }
    const std::pair<const char*, bool> needs_axis[] = {{"lines", plan_.lines.has_value()},
                                                       {"references", !plan_.references.empty()},
                                                       {"order_of_arms", plan_.order_of_arms}};
    for (const auto& [field, is_there] : needs_axis) {
      if (is_there && !is_axis) {
        refuse(field, field, "figure = \"axis\" beside it");
      }
    }
    if (plan_.lines && plan_.lines->of_environment) {
      refuse("lines", "lines", "policy.NAME as its option");
    }
  }

  // Every policy that other fields name must be one of the plan's.
  void check_policies() const {
    const auto is_there = [&](const std::string& policy) {
      return std::ranges::count(plan_.policies, policy) > 0;
    };
    if (!plan_.matched_to.empty() && !is_there(plan_.matched_to)) {
      refuse("matched_to", "matched_to", "one of the plan's policies");
    }
    for (const Replacement& one : plan_.replacements) {
      if (!is_there(one.policy)) {
        refuse("replace", "policy", fmt::format("one of the plan's policies, not {}", one.policy));
      }
      if (one.by->empty() &&
          (one.policy == plan_.policies.front() || one.policy == plan_.matched_to)) {
        refuse("replace", "by",
               fmt::format("a policy for {}, which others are compared with", one.policy));
      }
    }
    if (const std::optional<AxisClash> clash = find_clash(plan_)) {
      refuse("policies", "policies",
             fmt::format("{} without {}, which the axis sets", clash->policy, clash->option));
    }
  }

  // Every environment and policy must exist and have the options that the plan gives it.
  void check_entries() const {
    for (const std::string& entry : plan_.environments) {
      at_field("environments", "environments", [&] { all_options(parse_environment(entry)); });
    }
    for (const std::string& entry : plan_.policies) {
      at_field("policies", "policies", [&] {
        for (const PolicySpec& policy : parse_policies(entry)) {
          if (policy.name != kOracle) {
            resolved_options(policy);
          }
        }
      });
    }
    const std::pair<const char*, const std::optional<Axis>*> axes[] = {{"axis", &plan_.axis},
                                                                       {"lines", &plan_.lines}};
    for (const auto& [field, axis] : axes) {
      if (*axis) {
        check_distinct(field, "values", (*axis)->values);
        at_field(field, field, [&] { studies_of(plan_, nullptr); });
      }
    }
  }

  void check_distinct(const char* field, const char* about,
                      const std::vector<std::string>& names) const {
    if (std::set(names.begin(), names.end()).size() < names.size()) {
      refuse(field, about, "every entry once");
    }
  }

  // Checks the table [environment] as a whole. If it is wrong, tries each setting alone, to name
  // the line of a wrong one.
  void check_settings_table() const {
    const auto check_studies = [](const Plan& plan) {
      check_settings(plan.settings, {plan});
      studies_of(plan, nullptr);
    };
    at_field("environment", "environment", [&] {
      try {
        check_studies(plan_);
      } catch (const Error&) {
        for (const auto& [option, value] : plan_.settings) {
          Plan alone = plan_;
          alone.settings = {{option, value}};
          at_field("environment." + option, "environment", [&] { check_studies(alone); });
        }
        throw;
      }
    });
  }

  // Two entries must not be one environment in different words.
  void check_environments_differ() const {
    Plan bare = plan_;
    bare.axis.reset();
    bare.lines.reset();
    std::set<std::pair<std::string, OptionValues>> seen;
    for (const Study& study : studies_of(bare, nullptr)) {
      const EnvironmentSpec& environment = study.experiment.environment;
      if (!seen.emplace(environment.name, all_options(environment)).second) {
        refuse("environments", "environments",
               fmt::format("every entry once: {} is the same as another", study.environment));
      }
    }
  }

  void check_log_axis() const {
    if (!plan_.log_axis) {
      return;
    }
    for (const std::string& value : plan_.axis->values) {
      at_field("axis", "axis", [&] {
        if (parse_number("values", {-1e300, 1e300}, value) <= 0.0) {
          refuse("axis", "values", "numbers above zero with log = true");
        }
      });
    }
  }

  const Plan& plan_;
  const PlanSource& source_;
};

}  // namespace

std::size_t PlanSource::line_of(const std::string& field) const {
  const auto found = lines.find(field);
  return found == lines.end() ? 1 : found->second;
}

PlanFileError::PlanFileError(ErrorKind kind, const PlanSource& source, std::size_t line,
                             const std::string& why)
    : Error(kind, fmt::format("{}: line {}: {}", source.file, line, why)) {}

void check_plan(const Plan& plan, const PlanSource& source) { PlanChecker(plan, source).check(); }

}  // namespace mcnb
