#include "mcnb/experiment/run/cluster_quality.h"

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

double pairs(double count) { return count * (count - 1.0) / 2.0; }

std::size_t common_count(std::span<const UserId> a, std::span<const UserId> b) {
  std::size_t common = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      ++common;
      ++i;
      ++j;
    } else if (a[i] < b[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

}  // namespace

ClusterQuality compare_clusters(std::span<const UserId> found, std::span<const UserId> truth,
                                std::size_t users) {
  check(!found.empty() && !truth.empty(), "a cluster holds at least the arm's user");
  const auto all = static_cast<double>(users);
  const auto in_found = static_cast<double>(found.size());
  const auto in_truth = static_cast<double>(truth.size());
  const auto both = static_cast<double>(common_count(found, truth));

  // Pairs of users that both splits put together, that each split does, and the expectation for
  // random splits.
  const double together = pairs(both) + pairs(in_found - both) + pairs(in_truth - both) +
                          pairs(all - in_found - in_truth + both);
  const double by_found = pairs(in_found) + pairs(all - in_found);
  const double by_truth = pairs(in_truth) + pairs(all - in_truth);
  const double expected = users < 2 ? 0.0 : by_found * by_truth / pairs(all);
  const double most = (by_found + by_truth) / 2.0;
  // Equal if both splits have one part only.
  const double rand = most == expected ? 1.0 : (together - expected) / (most - expected);
  return {both / in_found, both / in_truth, rand};
}

}  // namespace mcnb
