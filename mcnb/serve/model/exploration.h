#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb {

// Probabilities of an epsilon floor over a choice: every eligible action gets epsilon / (number of
// eligible actions), `preferred`, which is one of them, the rest as well. They sum to 1.
std::vector<double> epsilon_floor(const std::vector<bool>& eligible, std::size_t preferred,
                                  double epsilon);

// An action drawn by these probabilities; never one of probability zero.
std::size_t draw_action(std::span<const double> probabilities, Rng rng);

}  // namespace mcnb
