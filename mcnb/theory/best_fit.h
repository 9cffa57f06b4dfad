#pragma once

#include <span>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/theory/contexts.h"

namespace mcnb {

// The sum of (f(x) - r)^2 / 2 over all contexts.
double total_loss(const Contexts& contexts, const NetworkShape& shape,
                  std::span<const float> network, ThreadPool& threads);

struct BestFit {
  std::vector<float> network;
  double loss = 0.0;              // at most that of `start`
  double distance = 0.0;          // from the centre
  std::uint64_t evaluations = 0;  // of the loss and its gradient
  bool converged = false;         // false: they ran out while the loss was still falling
};

// The network with the least total loss in the ball of that radius around `centre`, by L-BFGS from
// `start`, which lies in the ball. It has converged when the last quarter of its evaluations (50 at
// least) gained less than a thousandth of the loss, or when no step gains anything. The problem is
// not convex: the loss found bounds the least one from above, even then. The same on any number of
// threads. Requires a network without biases.
BestFit find_best_fit(const Contexts& contexts, const NetworkShape& shape,
                      std::span<const float> centre, std::span<const float> start, double radius,
                      std::uint64_t most_evaluations, ThreadPool& threads);

}  // namespace mcnb
