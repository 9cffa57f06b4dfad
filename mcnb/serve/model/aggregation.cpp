#include "mcnb/serve/model/aggregation.h"

#include <algorithm>
#include <numeric>

namespace mcnb {

double aggregate_rewards(Aggregation aggregation, std::span<const float> rewards) {
  const double sum = std::accumulate(rewards.begin(), rewards.end(), 0.0);
  switch (aggregation) {
    case Aggregation::kEarliest:
      return rewards.front();
    case Aggregation::kAverage:
      return sum / static_cast<double>(rewards.size());
    case Aggregation::kMin:
      return *std::ranges::min_element(rewards);
    case Aggregation::kMax:
      return *std::ranges::max_element(rewards);
    case Aggregation::kSum:
      break;
  }
  return sum;
}

}  // namespace mcnb
