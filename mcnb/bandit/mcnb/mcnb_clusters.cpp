// Which learners agree about an arm.

#include <algorithm>
#include <utility>

#include "mcnb/bandit/mcnb/divergence.h"
#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/bandit/mcnb/scoped_timer.h"

namespace mcnb {

std::vector<FoundCluster> Mcnb::users_like(std::span<const Candidate> arms) {
  const ScopedTimer timer(seconds_.clustering);
  std::vector<FoundCluster> clusters;
  clusters.reserve(arms.size());
  if (samples_learners()) {
    std::vector<std::optional<FoundCluster>> found =
        walk_.find(threads_, learners_, histories_, arms);
    for (std::size_t i = 0; i < arms.size(); ++i) {
      check_found(arms[i], found[i].has_value());
      clusters.push_back(std::move(*found[i]));
    }
    return clusters;
  }
  std::vector<Cluster> whole = cluster_finder_.find(threads_, learners_, arms);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    check_found(arms[i], !whole[i].empty());
    clusters.emplace_back(std::move(whole[i]));
  }
  return clusters;
}

// Nobody agrees with a learner whose own estimate is not finite.
void Mcnb::check_found(const Candidate& arm, bool is_found) const {
  if (!is_found) {
    refuse_diverged(learner_name(arm.learner), "eta_1", options_.eta_1);
  }
}

// The cluster of the decision if no learner has changed since, otherwise the cluster as it is now.
FoundCluster Mcnb::cluster_of_feedback(const Candidate& served) {
  if (!is_online() && learns_alone(served.learner)) {
    return Cluster{served.learner};  // the other members are not used
  }
  if (std::optional<FoundCluster> known = last_decision_.take(served.round, served.arm)) {
    return std::move(*known);
  }
  return std::move(users_like({&served, 1}).front());
}

std::optional<std::vector<UserId>> Mcnb::cluster(const Arm& arm) {
  check_arm(arm, user_count(), shape());
  unit_arms_.clear();
  const Candidate one = candidate({}, arm);
  Cluster cluster = cluster_finder_.find(threads_, learners_, {&one, 1})[0];
  check_found(one, !cluster.empty());
  if (options_.pre_clusters == 0) {
    return cluster;
  }
  std::vector<UserId> users;
  for (std::size_t user = 0; user < user_count(); ++user) {
    if (std::ranges::binary_search(cluster, learner_of_[user])) {
      users.push_back(UserId{static_cast<std::uint32_t>(user)});
    }
  }
  return users;
}

}  // namespace mcnb
