#pragma once

#include "mcnb/bandit/policies.h"

namespace mcnb {

// True for policies that can learn a lesson of weight w: as one whose features and reward are both
// multiplied by sqrt(w). These are policies that learn nothing but sums of x x^T and r x. Throws
// Error (kUsage) for a bad option.
bool takes_weights(const PolicySpec& spec);

}  // namespace mcnb
