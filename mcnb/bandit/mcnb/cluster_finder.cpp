#include "mcnb/bandit/mcnb/cluster_finder.h"

#include <algorithm>
#include <cmath>

namespace mcnb {
namespace {

// A pass that serves thirty arms computes far longer than it reads parameters, so more arms save
// little. The estimates take memory for every learner, also for those without feedback.
constexpr std::size_t kMostEstimatesAtOnce = std::size_t{1} << 22;  // 16 MB
constexpr std::size_t kFewestArmsPerPass = 32;
constexpr std::size_t kEstimatesPerTurn = 8192;  // that a thread compares before it asks for more

}  // namespace

Cluster find_cluster(std::span<const float> estimates, UserId learner, float gap) {
  const float own = estimates[index(learner)];
  Cluster cluster(estimates.size());
  // The loop has no branch, because a processor cannot predict who belongs to the cluster.
  std::size_t found = 0;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    cluster[found] = UserId{static_cast<std::uint32_t>(i)};
    found += std::abs(estimates[i] - own) <= gap ? 1 : 0;
  }
  cluster.resize(found);
  return cluster;
}

std::size_t ClusterFinder::arms_per_pass(std::size_t learner_count) {
  return std::max(kMostEstimatesAtOnce / learner_count, kFewestArmsPerPass);
}

std::vector<Cluster> ClusterFinder::find(ThreadPool& threads, const NetworkPool& learners,
                                         std::span<const Candidate> arms) {
  const std::size_t pass = arms_per_pass(learners.user_count());
  const std::size_t arms_per_turn = kEstimatesPerTurn / learners.user_count() + 1;
  const std::vector<Features> features = features_of(arms);
  std::vector<Cluster> clusters(arms.size());
  for (std::size_t begin = 0; begin < arms.size(); begin += pass) {
    const std::size_t count = std::min(pass, arms.size() - begin);
    learners.predict(threads, std::span(features).subspan(begin, count), estimates_);
    threads.parallel_for(count, arms_per_turn, [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) {
        clusters[begin + i] = find_cluster(estimates_.row(i), arms[begin + i].learner, gap_);
      }
    });
  }
  return clusters;
}

std::size_t ClusterFinder::memory_bytes() const {
  return estimates_.arm_count() * estimates_.user_count() * sizeof(float);
}

}  // namespace mcnb
