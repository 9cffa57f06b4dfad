#include "mcnb/bandit/mcnb/feedback_clusters.h"

#include <algorithm>

#include "mcnb/bandit/mcnb/cluster_finder.h"

namespace mcnb {

FeedbackClusters::FeedbackClusters(ThreadPool& threads, const NetworkPool& learners,
                                   std::span<const Candidate> arms, float gap)
    : threads_(threads), learners_(learners), arms_(arms), gap_(gap) {
  learners_.predict(threads_, features_of(arms), estimates_);
}

Cluster FeedbackClusters::find(std::size_t i) {
  const Candidate& candidate = arms_[i];
  if (!changed_.empty()) {
    learners_.predict(threads_, {&candidate.arm.features, 1}, changed_, renewed_);
    float* const row = estimates_.data() + i * estimates_.user_count();
    for (std::size_t k = 0; k < changed_.size(); ++k) {
      row[index(changed_[k])] = renewed_.row(0)[k];
    }
  }
  return find_cluster(estimates_.row(i), candidate.learner, gap_);
}

void FeedbackClusters::note_change(UserId learner) {
  const auto position = std::ranges::lower_bound(changed_, learner);
  if (position == changed_.end() || *position != learner) {
    changed_.insert(position, learner);
  }
}

}  // namespace mcnb
