#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/bandit/policy_size.h"

namespace mcnb {

struct PolicyKind;  ///< policy_kind.h

/// A policy by name, with options: "mcnb", "mcnb:gamma=0.2:exploration=0.1".
struct PolicySpec {
  std::string name = {};
  OptionValues options = {};
  std::string label = {};  ///< the text as written, for tables and plots
};
/// Throws Error (kUsage) for malformed text, an unknown policy or a bad option.
PolicySpec parse_policy(const std::string& text);

/// Every option of the policy with its value, given or not. Throws Error (kUsage) for a bad option.
OptionValues resolved_options(const PolicySpec& spec);

/// Call `pin_options` before options are stored, and `complete_options` after they were read back.
/// The first gives each option that the policy has not always had its value; the second adds those
/// that are missing, because a program before them stored the options, with the values that the
/// policy had then. `pin_options` throws Error (kUsage) for a bad option or an unknown policy;
/// `complete_options` leaves the options of an unknown policy as they are.
void pin_options(PolicySpec& spec);
void complete_options(PolicySpec& spec);

struct PolicyHelp {
  std::string name;
  std::string help;
  std::string paper;
  std::vector<OptionHelp> options;
};
std::vector<PolicyHelp> policy_help();

/// Throws Error (kUsage), which lists the policies there are, for an unknown name.
const PolicyKind& find_policy(const std::string& name);

/// Throws Error (kUsage) for options out of range.
std::unique_ptr<Policy> make_policy(const PolicySpec& spec, const PolicySetup& setup);

/// What make_policy would need, estimated from the options alone. Throws Error (kUsage) for an
/// option out of its range.
PolicySize size_of_policy(const PolicySpec& spec, const PolicySetup& setup);

/// Saves a policy with its name, options and setup. A load with other ones throws Error (kUsage).
/// An option that the saving program did not know yet, and that `spec` does not name, has the value
/// that the policy had then.
void save_policy_file(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                      const Policy& policy);
std::unique_ptr<Policy> load_policy_file(const std::string& path, const PolicySpec& spec,
                                         const PolicySetup& setup);

}  // namespace mcnb
