#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/bandit/exploration.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/evaluate/policies/target_policies.h"

namespace mcnb {

// The eligible actions of a logged round as a Policy sees them. Borrows the features of the view.
struct EligibleRound {
  Round round;
  std::vector<std::size_t> actions;  // index in the log, by arm
};
EligibleRound eligible_round(const RoundView& view, UserId user);

// Fills in the probabilities with which a policy that explores so would choose each action.
void set_explored(const RoundView& view, Policy& policy, UserId user,
                  const Exploration& exploration, std::span<double> actions);

}  // namespace mcnb
