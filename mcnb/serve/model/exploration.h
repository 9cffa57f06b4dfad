#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb {

// Probabilities of epsilon-greedy exploration: every eligible action gets epsilon / (number of
// eligible actions), and `preferred` gets the rest in addition. They sum to 1. Requires that
// `preferred` is eligible.
std::vector<double> epsilon_floor(const std::vector<bool>& eligible, std::size_t preferred,
                                  double epsilon);

// Draws an action by these probabilities; never one of probability zero.
std::size_t draw_action(std::span<const double> probabilities, Rng rng);

}  // namespace mcnb
