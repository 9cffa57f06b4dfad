#pragma once

#include <cstddef>
#include <span>

#include "mcnb/base/ids.h"

namespace mcnb {

// How well a found cluster matches the users that truly agree.
struct ClusterQuality {
  double precision = 0.0;      // share of the found members that belong
  double recall = 0.0;         // share of those that belong who were found
  double adjusted_rand = 0.0;  // 1: the same split of the users; about 0: a random one
};

// Compares two sets of users, each ascending, neither empty. A policy names only the one cluster of
// an arm's user, so the adjusted Rand index compares two splits in two: in the found cluster or
// not, and truly in agreement with the arm's user or not. Of the whole partition into groups, it
// sees what the policy has said about this arm and this user.
ClusterQuality compare_clusters(std::span<const UserId> found, std::span<const UserId> truth,
                                std::size_t users);

}  // namespace mcnb
