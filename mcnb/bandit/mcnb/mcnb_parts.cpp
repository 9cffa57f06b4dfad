// Scores of a part of a round, for owners that have other things to do in between.

#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/base/check.h"

namespace mcnb {

std::vector<Score> Mcnb::scores_of_part(const Round& round, std::size_t begin, std::size_t end) {
  mcnb::check(begin < end && end <= round.arms.size(), "a part of a round has some of its arms");
  check_round(round, user_count(), shape());
  unit_arms_.clear();
  const std::size_t most_arms = ClusterFinder::arms_per_pass(learners_.user_count());
  std::vector<Score> all;
  std::vector<Candidate> arms;
  for (std::size_t i = begin; i < end; ++i) {
    arms.push_back(candidate(round.id, round.arms[i]));
    if (arms.size() == most_arms || i + 1 == end) {
      const std::vector<FoundCluster> clusters = users_like(arms);
      const std::vector<AdaptedMeta> metas = adapt_meta_learner(arms, clusters);
      const std::vector<Score> bounds = upper_bounds(arms, clusters, metas);
      all.insert(all.end(), bounds.begin(), bounds.end());
      arms.clear();
    }
  }
  return all;
}

}  // namespace mcnb
