#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// A policy by name with its options: "mcnb", "mcnb:gamma=0.2:exploration=0.1".
struct PolicySpec {
  std::string name;
  OptionValues options;
  std::string label;  // as it was written: what tables and plots call it
};
// Throws Error (kUsage) for text that is no such thing, an unknown policy or a bad option.
PolicySpec parse_policy(const std::string& text);

// Every option of the policy with its value, given or not. Throws Error (kUsage).
OptionValues resolved_options(const PolicySpec& spec);

struct PolicyHelp {
  std::string name;
  std::string help;
  std::string paper;
  std::vector<OptionHelp> options;
};
std::vector<PolicyHelp> policy_help();

// Throws Error (kUsage) for options out of range.
std::unique_ptr<Policy> make_policy(const PolicySpec& spec, const PolicySetup& setup);

// A policy in a file, with its name, options and setup, so that a load under others is refused.
void save_policy_file(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                      const Policy& policy);
std::unique_ptr<Policy> load_policy_file(const std::string& path, const PolicySpec& spec,
                                         const PolicySetup& setup);

}  // namespace mcnb
