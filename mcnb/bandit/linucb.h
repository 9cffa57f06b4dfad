#pragma once

#include <memory>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// LinUCB: a ridge regression for all users together, or one for each user, made when the user first
// gets data. Scores an arm by x.w + alpha sqrt(x^T M^-1 x * log(1 + t)). t is 1 + the rewards
// learned so far, of all users, start data not counted: with immediate feedback the number of the
// round, from 1, so that the bonus is never zero for want of a logarithm.
//
// Feature blocks must be equal or disjoint. Then M is block diagonal, and each block has a ridge
// state of its own: an arm costs the square of its own features, not of the whole vector. Blocks
// that overlap in part are refused (Error, kInput), as are blocks of more than 16,384 features.
std::unique_ptr<Policy> make_linucb(const OptionValues& options, const PolicySetup& setup);
std::vector<OptionHelp> linucb_option_help();
// Throws Error (kUsage) as make_linucb would.
OptionValues resolve_linucb_options(const OptionValues& options);

}  // namespace mcnb
