#pragma once

#include <string>
#include <vector>

#include "mcnb/evaluate/evaluation.h"

namespace mcnb {

// What a policy does in all rounds of a log.
struct PolicyRows {
  std::string name;
  std::vector<EvaluatedRow> rows;
  double largest_weight = 0.0;  // that a round could have had
  double impossible = 0.0;      // sum of the probabilities of actions that the log could not take
};

// The first of the policies is the log itself, with the weight 1 everywhere. Estimates the values
// of the `shown` policies after it, and their differences from the baseline: the policy beyond
// those, or the log if there is none. `bounded`: rewards keep their range, and all rounds count
// alike.
SlotEvaluation estimate_slot(const EvaluationOptions& options,
                             const std::vector<PolicyRows>& policies, std::size_t shown,
                             bool bounded);

}  // namespace mcnb
