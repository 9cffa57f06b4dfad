#pragma once

#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// How a decision explores, given the scores of its arms. All but the first two make every arm
// possible.
struct Exploration {
  enum class Kind {
    kOwn,       // the arm that the policy chooses
    kGreedy,    // the arm with the highest estimate
    kEpsilon,   // the arm that the policy chooses with 1 - epsilon, plus epsilon spread evenly
    kSoftmax,   // exp(estimate / amount), scaled to add up to 1
    kSquareCb,  // 1 / (K + amount (best - estimate)) of K arms; the best one gets the rest
  };
  Kind kind = Kind::kOwn;
  double amount = 0.0;  // epsilon, the temperature of softmax, gamma of SquareCB
};

// "own", "greedy", "epsilon=0.1", "softmax=0.2" or "squarecb=50". Throws Error (kUsage).
Exploration parse_exploration(const std::string& text);

// The exact probability of every arm; they add up to 1. Requires at least one score. Only arms that
// the policy considered can be chosen. SquareCB is that of Foster and Rakhlin (2020).
std::vector<double> choice_probabilities(const Exploration& exploration,
                                         std::span<const Score> scores);

}  // namespace mcnb
