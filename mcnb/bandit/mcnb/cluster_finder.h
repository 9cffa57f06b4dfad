#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/bandit/mcnb/candidate.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/network_pool.h"

namespace mcnb {

// The learners whose estimates differ by at most `gap` from the estimate of `learner`.
// `estimates` holds f(x; theta^v) of every learner v. The cluster is empty if the estimate of
// `learner` is not finite, otherwise it contains `learner`.
Cluster find_cluster(std::span<const float> estimates, UserId learner, float gap);

// Finds the clusters of many arms: one pass over all learners serves as many arms as memory allows.
class ClusterFinder {
 public:
  // Learners agree about an arm if their estimates differ by at most `gap`.
  explicit ClusterFinder(float gap) : gap_(gap) {}

  float gap() const { return gap_; }

  // The clusters of the arms, in their order (see find_cluster).
  std::vector<Cluster> find(ThreadPool& threads, const NetworkPool& learners,
                            std::span<const Candidate> arms);

  // The number of arms that one pass over this many learners serves; at least 32.
  static std::size_t arms_per_pass(std::size_t learner_count);

  std::size_t memory_bytes() const;

 private:
  float gap_;
  Predictions estimates_;  // memory that `find` reuses
};

}  // namespace mcnb
