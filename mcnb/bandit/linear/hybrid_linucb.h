#pragma once

#include <memory>

#include "mcnb/bandit/policy.h"
#include "mcnb/bandit/policy_size.h"

namespace mcnb {

struct HybridLinUcbOptions {
  double lambda;
  double alpha;
  bool products;
};

// linucb:users=hybrid. Throws Error (kUsage) if arms have too many features for it.
PolicySize hybrid_linucb_size(bool products, const PolicySetup& setup);
std::unique_ptr<Policy> make_hybrid_linucb(const HybridLinUcbOptions& options,
                                           const PolicySetup& setup);

}  // namespace mcnb
