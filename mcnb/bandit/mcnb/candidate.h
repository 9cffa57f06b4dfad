#pragma once

#include <span>
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

}  // namespace mcnb
