#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/bandit/mcnb/candidate.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/network_pool.h"

namespace mcnb {

// The clusters of a batch of feedback, from one pass over all learners. Learning changes learners
// while the batch is worked through; only the estimates of those are computed again.
class FeedbackClusters {
 public:
  // Borrows all but the gap. Requires at most ClusterFinder::arms_per_pass arms.
  FeedbackClusters(ThreadPool& threads, const NetworkPool& learners,
                   std::span<const Candidate> arms, float gap);

  // The cluster of arms[i], as the learners are now (see find_cluster).
  Cluster find(std::size_t i);

  // Must be called for every learner that changes.
  void note_change(UserId learner);

 private:
  ThreadPool& threads_;
  const NetworkPool& learners_;
  std::span<const Candidate> arms_;
  float gap_;
  Predictions estimates_;  // before any change
  Predictions renewed_;    // of the changed learners, for one arm
  std::vector<UserId> changed_;
};

}  // namespace mcnb
