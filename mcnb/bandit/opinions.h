#pragma once

#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// Appends what the learner of each user expects of each arm: for every user one number for each
// arm. For people who compare users. Of M-CNB it is the estimate of the user's own network, of
// other policies the estimate of `scores`.
void find_opinions(Policy& policy, std::span<const UserId> users, std::span<const Features> arms,
                   std::vector<float>& out);

// How far the learner that all users share has moved from where it began: the distance of its
// parameters, of M-CNB's meta-learner. nullopt for policies without such a learner.
std::optional<double> shared_movement(const Policy& policy);

// Why a policy expects what it expects of an arm, as its learners are now. For people.
struct CloserLook {
  // The users who agree about the arm, in ascending order; nullopt if the policy does not cluster.
  std::optional<std::vector<UserId>> members;
  // A sample that the meta-learner adapted to, and how much less it would expect without it.
  struct MovingSample {
    std::vector<float> features;  // as the policy stores them: perhaps scaled to unit length
    float reward = 0.0F;
    double moved = 0.0;
  };
  std::vector<MovingSample> samples;  // the strongest first, at most as many as asked for
};
// `most` samples; they cost as many adaptations.
CloserLook look_closer(Policy& policy, RoundId round, const Arm& arm, std::size_t most);

}  // namespace mcnb
