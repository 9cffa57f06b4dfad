#pragma once

#include <cstddef>
#include <span>

#include "mcnb/base/ids.h"

namespace mcnb {

/// How well a found cluster matches the users that truly agree.
struct ClusterQuality {
  double precision = 0.0;      ///< share of the found members that belong
  double recall = 0.0;         ///< share of the users that belong that were found
  double adjusted_rand = 0.0;  ///< 1: an equal split of the users; about 0: a random split
};

/// Compares two sets of users; both must be ascending and not empty. A policy names only the
/// cluster of an arm's user, not the whole partition. So the adjusted Rand index compares two
/// splits of the users into two parts: in the found cluster or not, and truly in agreement with the
/// arm's user or not.
ClusterQuality compare_clusters(std::span<const UserId> found, std::span<const UserId> truth,
                                std::size_t users);

}  // namespace mcnb
