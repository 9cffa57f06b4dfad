#include "mcnb/bandit/mcnb/pre_clusters.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/numeric/kmeans.h"

namespace mcnb {

std::vector<UserId> assign_learners(const PolicySetup& setup, std::size_t pre_clusters) {
  std::vector<UserId> learner_of(setup.users);
  if (pre_clusters == 0) {
    for (std::size_t user = 0; user < setup.users; ++user) {
      learner_of[user] = UserId{static_cast<std::uint32_t>(user)};
    }
    return learner_of;
  }
  if (setup.user_feature_count == 0 ||
      setup.user_features.size() != setup.users * setup.user_feature_count) {
    throw Error(ErrorKind::kUsage,
                fmt::format("option pre_clusters: must be 0 because these users have no features "
                            "(got {})",
                            pre_clusters));
  }
  const KMeans groups = k_means(setup.user_features, setup.user_feature_count,
                                std::min(pre_clusters, setup.users), setup.seed);
  for (std::size_t user = 0; user < setup.users; ++user) {
    learner_of[user] = UserId{groups.group[user]};
  }
  return learner_of;
}

}  // namespace mcnb
