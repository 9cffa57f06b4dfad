#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// A mean with its interval of 95 %.
struct SeriesMean {
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
};

// Rewards with weights: what another way to choose would have earned on average, estimated by
// self-normalised importance sampling. With weights of 1 it is the plain mean.
struct WeightedRewards {
  double weights = 0.0;  // sums of w, w w, w r, w w r and w w r r
  double squares = 0.0;
  double rewards = 0.0;
  double square_rewards = 0.0;
  double square_reward_squares = 0.0;

  using Stored =
      StoredInOrder<&WeightedRewards::weights, &WeightedRewards::squares, &WeightedRewards::rewards,
                    &WeightedRewards::square_rewards, &WeightedRewards::square_reward_squares>;

  void add(double weight, double reward);
  // nullopt for less than two rewards' worth of weight.
  std::optional<SeriesMean> mean() const;
  // How many rewards of equal weight would say as much.
  double effective_size() const { return squares > 0.0 ? weights * weights / squares : 0.0; }
};

// One action among the answers of a bucket.
struct ActionShare {
  std::uint32_t name = 0;  // in the table of the series; 0: all others
  std::uint32_t decisions = 0;
  std::uint32_t settled = 0;
  float rewards = 0.0F;  // the sum over those settled

  using Stored = StoredInOrder<&ActionShare::name, &ActionShare::decisions, &ActionShare::settled,
                               &ActionShare::rewards>;
};

// Counts of one span of time. Those of a model's rewards belong to the time of the decision, like
// the order of an evaluation, and are complete once the waiting time is over.
struct BucketCounts {
  std::int64_t begin = 0;   // milliseconds since 1970
  WeightedRewards policy;   // of the answers
  WeightedRewards random;   // of choosing uniformly
  WeightedRewards first;    // of the caller's first action
  double movement = 0.0;    // of the shared learner from where it began, as measured last
  std::uint64_t steps = 0;  // backward passes of the policy
  std::uint32_t decisions = 0;
  std::uint32_t explored = 0;
  std::uint32_t settled = 0;   // of the decisions: their reward is known
  std::uint32_t rewarded = 0;  // of those settled: not by the default reward
  std::uint32_t rewards = 0;   // that came in this span, in time
  std::uint32_t late = 0;      // that came too late
  std::uint32_t learned = 0;   // lessons
  std::uint32_t refused = 0;   // lessons that the policy refused

  using Stored =
      StoredInOrder<&BucketCounts::begin, &BucketCounts::policy, &BucketCounts::random,
                    &BucketCounts::first, &BucketCounts::movement, &BucketCounts::steps,
                    &BucketCounts::decisions, &BucketCounts::explored, &BucketCounts::settled,
                    &BucketCounts::rewarded, &BucketCounts::rewards, &BucketCounts::late,
                    &BucketCounts::learned, &BucketCounts::refused>;
};

struct Bucket : BucketCounts {
  static constexpr std::size_t kProbabilityBins = 10;
  static constexpr std::size_t kMostActions = 12;
  std::array<std::uint32_t, kProbabilityBins> probabilities{};  // of the answers, by tenths
  std::vector<ActionShare> actions;  // at most kMostActions, and one for all others
};

// What the whole service did in one span of time.
struct ServiceCounts {
  std::int64_t begin = 0;
  std::uint64_t log_bytes = 0;     // at the end
  std::uint64_t memory_bytes = 0;  // at the end
  std::uint32_t requests = 0;
  std::uint32_t errors = 0;  // with a status of 500 or more

  using Stored =
      StoredInOrder<&ServiceCounts::begin, &ServiceCounts::log_bytes, &ServiceCounts::memory_bytes,
                    &ServiceCounts::requests, &ServiceCounts::errors>;
};

struct ServiceBucket : ServiceCounts {
  static constexpr std::size_t kLatencyBins = 16;
  std::array<std::uint32_t, kLatencyBins> latency{};  // of rank, by the bounds of its histogram
};

}  // namespace mcnb
