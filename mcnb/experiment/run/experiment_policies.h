#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/environment/environments.h"

namespace mcnb {

// The policies that an experiment can run: those of bandit/policies.h, and "oracle", which knows
// the expected rewards of its environment, always chooses the best arm and learns nothing.
inline constexpr const char* kOracle = "oracle";

// Reads "mcnb:gamma=0.2,linucb,oracle". Throws Error (kUsage) as parse_policy does, for an empty
// list, and for a policy that occurs twice.
std::vector<PolicySpec> parse_policies(const std::string& text);

std::vector<PolicyHelp> experiment_policy_help();

// The policies with the options they have in this environment: M-CNB without a preset gets the one
// for classification if the environment is one. Labels do not change.
std::vector<PolicySpec> fitted_to(const EnvironmentSpec& environment,
                                  std::vector<PolicySpec> policies);

// The oracle borrows the environment, which must outlive the policy.
std::unique_ptr<Policy> make_experiment_policy(const PolicySpec& spec, const PolicySetup& setup,
                                               const Environment& environment);

}  // namespace mcnb
