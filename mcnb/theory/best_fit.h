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
  bool converged = false;         // false: it was stopped while the loss was still falling
};

// Looks for the network with the least total loss in the ball of that radius around `centre`, by
// L-BFGS from `start`, which must lie in the ball. The search has converged if the last quarter of
// its evaluations (at least 50) reduced the loss by less than a thousandth, or if no step reduces
// it. The problem is not convex, so even then the loss is only an upper bound of the least one. The
// result does not depend on the number of threads. Requires a network without biases.
BestFit find_best_fit(const Contexts& contexts, const NetworkShape& shape,
                      std::span<const float> centre, std::span<const float> start, double radius,
                      std::uint64_t most_evaluations, ThreadPool& threads);

}  // namespace mcnb
