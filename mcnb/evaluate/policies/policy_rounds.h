#pragma once

#include <cstddef>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/evaluate/policies/target_policies.h"

namespace mcnb {

// The eligible actions of a logged round as a Policy sees them. Borrows the features of the view.
struct EligibleRound {
  Round round;
  std::vector<std::size_t> actions;  // index in the log, by arm
};
EligibleRound eligible_round(const RoundView& view, UserId user);

}  // namespace mcnb
