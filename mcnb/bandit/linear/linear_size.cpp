#include "mcnb/bandit/linear/linear_size.h"

namespace mcnb {

PolicySize linear_policy_size(const PolicySetup& setup, const LinearParts& parts) {
  constexpr double kPolicy = 3000.0;
  constexpr double kUser = 150.0;  // rows, slots and edges
  const double length = setup.block_length > 0 ? setup.block_length : setup.inputs;
  PolicySize size;
  size.fixed_bytes = kPolicy + parts.shared_states * ridge_bytes(length);
  size.idle_bytes = 8.0;
  if (parts.states > 0.0 || parts.compared) {
    size.user_bytes = kUser + parts.states * ridge_bytes(length) +
                      (parts.compared ? 8.0 * length : 0.0) + parts.clusters / 8.0;
  }
  size.arm_operations = length * length * (1.0 + parts.clusters);
  return size;
}

}  // namespace mcnb
