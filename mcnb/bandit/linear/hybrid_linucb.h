#pragma once

#include <memory>

#include "mcnb/bandit/policy.h"

namespace mcnb {

struct HybridLinUcbOptions {
  double lambda;
  double alpha;
  bool products;
};

// linucb:users=hybrid. Throws Error (kUsage) if arms have too many features for it.
std::unique_ptr<Policy> make_hybrid_linucb(const HybridLinUcbOptions& options,
                                           const PolicySetup& setup);

}  // namespace mcnb
