#pragma once

#include <memory>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// Chooses uniformly, and learns nothing: what every other policy has to beat. The draws are
// addressed by the seed and the round's id. Has no options.
std::unique_ptr<Policy> make_random_policy(const OptionValues& options, const PolicySetup& setup);
std::vector<OptionHelp> random_policy_option_help();
// Throws Error (kUsage) for any option.
OptionValues resolve_random_policy_options(const OptionValues& options);

}  // namespace mcnb
