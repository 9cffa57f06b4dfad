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
  double loss = 0.0;      // at most that of `start`
  double distance = 0.0;  // from the centre
  std::uint64_t steps = 0;
  bool converged = false;  // false: the steps ran out
};

// The network with the least total loss in the ball of that radius around `centre`, by projected
// gradient descent from `start`, which lies in the ball. The problem is not convex: the loss found
// bounds the least one from above. The same on any number of threads. Requires a network without
// biases.
BestFit find_best_fit(const Contexts& contexts, const NetworkShape& shape,
                      std::span<const float> centre, std::span<const float> start, double radius,
                      std::uint64_t most_steps, ThreadPool& threads);

}  // namespace mcnb
