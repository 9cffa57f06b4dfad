#pragma once

#include "mcnb/bandit/policy.h"
#include "mcnb/bandit/policy_size.h"

namespace mcnb {

// What a linear policy keeps.
struct LinearParts {
  double states = 1.0;         // ridge states of each user with rewards
  double shared_states = 1.0;  // of all users together
  double clusters = 0.0;       // that each know their members by a bit
  bool compared = true;        // whether the users' weights are kept together as well
};

// The size of a policy of ridge states (linear_users.h) for arms that are whole vectors, or blocks.
PolicySize linear_policy_size(const PolicySetup& setup, const LinearParts& parts);

}  // namespace mcnb
