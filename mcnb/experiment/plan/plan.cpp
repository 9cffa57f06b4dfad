#include "mcnb/experiment/plan/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "mcnb/base/error.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

// Adds ":option=value" unless the policy sets the option itself.
std::string with_option(const std::string& policy, const std::string& option,
                        const std::string& value) {
  const std::string set = ":" + option + "=";
  if (policy.find(set) != std::string::npos) {
    return policy;
  }
  return policy + set + value;
}

// Applies the replacements for one environment. A replaced policy takes the options of the other,
// keeps those that it sets itself, and keeps its label.
std::vector<PolicySpec> replaced(std::vector<PolicySpec> policies,
                                 const std::vector<Replacement>& replacements,
                                 const std::string& environment) {
  for (const Replacement& one : replacements) {
    if (std::ranges::count(one.environments, environment) == 0) {
      continue;
    }
    const auto is_meant = [&](const PolicySpec& policy) {
      return policy.label == one.policy || policy.label.starts_with(one.policy + ":");
    };
    if (one.by->empty()) {
      std::erase_if(policies, is_meant);
    }
    for (PolicySpec& policy : policies) {
      if (is_meant(policy)) {
        PolicySpec by = parse_policy(*one.by);
        for (const auto& [option, value] : policy.options) {
          by.options[option] = value;
        }
        by.label = policy.label;
        policy = std::move(by);
      }
    }
  }
  return policies;
}

void check_known(const std::string& environment, const OptionValues& known,
                 const std::string& option) {
  if (!known.contains(option)) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: option {}: expected one of the options of that "
                                               "environment, see mcnb environments",
                                               environment, option));
  }
}

}  // namespace

EnvironmentSpec parse_environment(const std::string& text) {
  EnvironmentSpec spec;
  std::istringstream stream(text);
  std::getline(stream, spec.name, ':');
  for (std::string part; std::getline(stream, part, ':');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse_option("environment", "name:option=value:...", text);
    }
    spec.options[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return spec;
}

std::string written(const PolicySpec& policy) {
  std::string text = policy.name;
  for (const auto& [name, value] : policy.options) {
    text += ":" + name + "=" + value;
  }
  return text;
}

std::vector<std::string> with_values(const std::vector<std::string>& policies, const Axis& axis) {
  std::vector<std::string> all;
  for (const std::string& policy : policies) {
    for (const std::string& value : axis.values) {
      const std::string changed = with_option(policy, axis.option, value);
      if (std::ranges::count(all, changed) == 0) {
        all.push_back(changed);
      }
    }
  }
  return all;
}

std::vector<Study> studies_of(const Plan& plan, const std::shared_ptr<DataSource>& data) {
  std::vector<std::string> names = plan.policies;
  for (const std::optional<Axis>* axis : {&plan.axis, &plan.lines}) {
    if (*axis && !(*axis)->of_environment) {
      names = with_values(names, **axis);
    }
  }
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ",") + name;
  }
  const std::vector<PolicySpec> policies = parse_policies(list);

  std::vector<Study> studies;
  for (const std::string& text : plan.environments) {
    EnvironmentSpec spec = parse_environment(text);
    const OptionValues known = all_options(spec);
    for (const auto& [name, value] : plan.settings) {
      if (known.contains(name) && !spec.options.contains(name)) {
        spec.options[name] = value;
      }
    }
    spec.data = data;
    const bool varies = plan.axis && plan.axis->of_environment;
    if (varies) {
      check_known(text, known, plan.axis->option);
    }
    for (const std::string& value :
         varies ? plan.axis->values : std::vector<std::string>{std::string()}) {
      if (varies) {
        spec.options[plan.axis->option] = value;
      }
      all_options(spec);  // throws for values out of range, before anything runs
      studies.push_back(
          {text,
           value,
           {.environment = spec,
            .policies = fitted_to(spec, replaced(policies, plan.replacements, spec.name)),
            .options = plan.options}});
    }
  }
  return studies;
}

std::optional<AxisClash> find_clash(const Plan& plan) {
  for (const std::optional<Axis>* axis : {&plan.axis, &plan.lines}) {
    for (const std::string& policy : plan.policies) {
      if (*axis && !(*axis)->of_environment &&
          policy.find(":" + (*axis)->option + "=") != std::string::npos) {
        return AxisClash{policy, (*axis)->option};
      }
    }
  }
  return std::nullopt;
}

void check_lists(const Plan& plan) {
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"datasets", &plan.environments}, {"policies", &plan.policies}};
  for (const auto& [name, list] : lists) {
    if (list->empty()) {
      refuse_option(name, "at least one", "");
    }
    for (const std::string& entry : *list) {
      if (std::ranges::count(*list, entry) > 1) {
        refuse_option(name, "every entry once", entry);
      }
    }
  }
  if (const std::optional<AxisClash> clash = find_clash(plan)) {
    refuse_option("policies",
                  fmt::format("policies without {}, which the plan's axis sets", clash->option),
                  clash->policy);
  }
}

void check_settings(const OptionValues& settings, const std::vector<Plan>& plans) {
  for (const auto& [name, value] : settings) {
    const bool is_known = std::ranges::any_of(plans, [&](const Plan& plan) {
      return std::ranges::any_of(plan.environments, [&](const std::string& environment) {
        return all_options(parse_environment(environment)).contains(name);
      });
    });
    if (!is_known) {
      refuse_option(name, "an option of one of the environments, see mcnb environments", value);
    }
  }
}

bool seeds_overlap(const TuningPlan& tuning, const ExperimentOptions& options) {
  return tuning.first_seed < options.first_seed + options.seeds &&
         options.first_seed < tuning.first_seed + tuning.seeds;
}

void check_tuning_seeds(const TuningPlan& tuning, const ExperimentOptions& options) {
  if (seeds_overlap(tuning, options)) {
    refuse_option("tune.first_seed", "seeds that are not reported",
                  std::to_string(tuning.first_seed));
  }
}

std::vector<PolicySpec> grid_of(const TuningPlan& tuning, const PolicySpec& policy) {
  std::vector<std::string> points;
  for (const Grid& grid : tuning.grids) {
    if (std::ranges::count(grid.policies, policy.name) == 0) {
      continue;
    }
    points = {written(policy)};
    for (const Axis& option : grid.options) {
      points = with_values(points, option);
    }
  }
  std::vector<PolicySpec> specs;
  for (const std::string& point : points) {
    specs.push_back(parse_policy(point));
  }
  return specs;
}

}  // namespace mcnb
