#include "mcnb/experiment/report/plan_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "mcnb/experiment/report/shown_study.h"

namespace mcnb {
namespace {

bool differ_only_in_environments(const PlanRequest& a, const PlanRequest& b) {
  const auto rest = [](const PlanRequest& one) {
    return std::tie(one.name, one.policies, one.settings, one.rounds, one.seeds, one.first_seed,
                    one.tune);
  };
  return rest(a) == rest(b);
}

void check_matched_policy(const Plan& plan) {
  if (!plan.matched_to.empty() && std::ranges::count(plan.policies, plan.matched_to) == 0) {
    refuse_option(
        "policies",
        fmt::format("{} among them, to whose steps the others are matched", plan.matched_to),
        plan.policies.front());
  }
}

}  // namespace

Plan requested_plan(const PlanRequest& request) {
  const std::string file = request.name + (request.name.ends_with(".toml") ? "" : ".toml");
  Plan plan = read_plan(file, request.text);
  plan.options.rounds = request.rounds.value_or(plan.options.rounds);
  plan.options.seeds = request.seeds.value_or(plan.options.seeds);
  plan.options.first_seed = request.first_seed.value_or(plan.options.first_seed);
  experiment_option_table().validate(plan.options);
  if (!request.environments.empty()) {
    plan.environments = request.environments;
  }
  if (!request.policies.empty()) {
    plan.policies = request.policies;
  }
  check_lists(plan);
  for (const auto& [option, value] : request.settings) {
    plan.settings[option] = value;
  }
  check_matched_policy(plan);
  if (request.tune && !plan.tuning.grids.empty()) {
    check_tuning_seeds(plan.tuning, plan.options);
    plan.name += "-tuned";
    plan.title += " (tuned)";
  }
  return plan;
}

std::string settings_of(const Plan& plan) {
  std::vector<EnvironmentSpec> specs;
  for (const Study& study : studies_of(plan, nullptr)) {
    specs.push_back(study.experiment.environment);
  }
  return settings_text(changed_settings(plan, specs), " ");
}

std::string page_key(const Plan& plan) {
  const std::string settings = settings_of(plan);
  return plan.name + (settings.empty() ? "" : " " + settings);
}

PlanRequest joined(PlanRequest request, const PlanRequest& earlier) {
  if (!differ_only_in_environments(request, earlier)) {
    return request;
  }
  std::vector<std::string> both = requested_plan(earlier).environments;
  for (const std::string& environment : requested_plan(request).environments) {
    if (std::ranges::count(both, environment) == 0) {
      both.push_back(environment);
    }
  }
  request.environments.clear();
  if (both != requested_plan(request).environments) {
    request.environments = both;
  }
  return request;
}

}  // namespace mcnb
