#include "mcnb/serve/series/bucket.h"

#include <algorithm>
#include <cmath>

namespace mcnb {

void WeightedRewards::add(double weight, double reward) {
  const double square = weight * weight;
  weights += weight;
  squares += square;
  rewards += weight * reward;
  square_rewards += square * reward;
  square_reward_squares += square * reward * reward;
}

std::optional<SeriesMean> WeightedRewards::mean() const {
  constexpr double kNormal = 1.959963984540054;
  if (!(weights > 0.0) || effective_size() < 2.0) {
    return std::nullopt;
  }
  const double value = rewards / weights;
  // The sum of w w (r - value)^2, by the delta method.
  const double spread =
      std::max(square_reward_squares - 2.0 * value * square_rewards + value * value * squares, 0.0);
  const double half = kNormal * std::sqrt(spread) / weights;
  return SeriesMean{value, value - half, value + half};
}

}  // namespace mcnb
