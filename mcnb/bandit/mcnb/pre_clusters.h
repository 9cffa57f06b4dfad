#pragma once

#include <cstddef>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// Maps each user of the setup to a learner: its own, or the one shared by its pre-cluster.
// Pre-clusters are groups that k-means finds among the users' features; 0 means none. Throws Error
// (kUsage) if pre-clusters are requested and the users have no features.
std::vector<UserId> assign_learners(const PolicySetup& setup, std::size_t pre_clusters);

}  // namespace mcnb
