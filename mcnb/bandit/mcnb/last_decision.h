#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/mcnb/candidate.h"

namespace mcnb {

// The clusters of the last decision, so that feedback on it need not find them again. They are true
// until a learner changes: whoever changes one calls `clear`.
class LastDecision {
 public:
  // Requires arms of one round in ascending order of their indices, and a cluster for each. Copies
  // the arms' features.
  void remember(std::span<const Candidate> arms, std::vector<FoundCluster> clusters);

  void clear();

  // Hands over the cluster of an arm; each can be taken once. Returns nothing if the decision has
  // no arm with this round, index, user and features.
  std::optional<FoundCluster> take(RoundId round, const Arm& arm);

  std::size_t memory_bytes() const;

 private:
  std::vector<Candidate> arms_;  // their features lie in values_
  std::vector<float> values_;
  std::vector<std::optional<FoundCluster>> clusters_;  // by arm; until taken
};

}  // namespace mcnb
