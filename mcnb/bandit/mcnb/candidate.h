#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// An arm that M-CNB looks at.
struct Candidate {
  RoundId round{};
  Arm arm;           // borrows its features
  UserId learner{};  // stands for the arm's user; differs from arm.user only with pre-clusters
};

inline std::vector<Features> features_of(std::span<const Candidate> arms) {
  std::vector<Features> features;
  features.reserve(arms.size());
  for (const Candidate& candidate : arms) {
    features.push_back(candidate.arm.features);
  }
  return features;
}

// The learners that agree about an arm, in ascending order: N_u(x) in the paper.
using Cluster = std::vector<UserId>;

// What a scan of the learners has found out about the cluster of an arm.
struct FoundCluster {
  FoundCluster() = default;
  FoundCluster(Cluster all) : members(std::move(all)), size(members.size()) {}  // the whole cluster

  Cluster members;       // all in ascending order, or those that a walk met (learner_walk.h)
  std::size_t size = 0;  // of the cluster
  std::optional<ClusterSample> sample;  // of a walk: the size is an estimate
  // The walk met members for all steps of an adaptation: they are in the order of the walk, and
  // each step takes the next ones. Otherwise they are in ascending order, and each step draws.
  bool is_enough = false;
};

}  // namespace mcnb
