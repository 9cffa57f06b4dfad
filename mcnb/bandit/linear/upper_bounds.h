#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/linear/linear_users.h"

namespace mcnb {

// How the linear policies value the arms of a round: x.w + scale sqrt(x^T M^-1 x), where w and M
// are those of the ridge state that the policy finds for the arm.
struct UpperBounds {
  UpperBounds(const FeatureBlocks& known_blocks, double ridge_lambda, ThreadPool& pool,
              double uncertainty_scale)
      : blocks(known_blocks), lambda(ridge_lambda), threads(pool), scale(uncertainty_scale) {}
  UpperBounds(const LinearUsers& users, ThreadPool& pool, double uncertainty_scale)
      : UpperBounds(users.blocks(), users.lambda(), pool, uncertainty_scale) {}

  const FeatureBlocks& blocks;
  double lambda;
  ThreadPool& threads;
  double scale;  // of the uncertainty, >= 0

  double value(const RidgePrediction& said) const {
    return said.estimate + scale * said.uncertainty;
  }
};

// Calls body(begin, end) for ranges of a round's arms, on several threads if the work is large.
template <class Body>
void for_all_arms(const Round& round, ThreadPool& threads, Body body) {
  constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications
  std::size_t longest = 1;
  for (const Arm& arm : round.arms) {
    longest = std::max(longest, arm.features.values.size());
  }
  threads.parallel_for(round.arms.size(),
                       std::max<std::size_t>(1, kWorthAThread / (longest * longest)), body);
}

// Calls take(arm, prediction) for every arm of a round, perhaps on several threads.
// find_ridge(arm, block) returns the ridge state for an arm; nullptr stands for M = lambda I, w =
// 0. Neighbouring arms with one state are predicted together. Requires a checked round.
template <class FindRidge, class Take>
void predict_arms(const Round& round, const UpperBounds& bounds, FindRidge find_ridge, Take take) {
  constexpr std::size_t kTogether = kernels::kPointsTogether;
  const auto find = [&](const Arm& arm) -> const RidgeState* {
    const std::optional<std::uint32_t> block = bounds.blocks.find(arm.features);
    return block ? find_ridge(arm, *block) : nullptr;
  };
  for_all_arms(round, bounds.threads, [&](std::size_t begin, std::size_t end) {
    std::array<const float*, kTogether> points;
    std::array<RidgePrediction, kTogether> said;
    const RidgeState* next = find(round.arms[begin]);
    while (begin < end) {
      const RidgeState* const ridge = next;
      std::size_t count = 0;
      do {
        points[count] = round.arms[begin + count].features.values.data();
        ++count;
        next = begin + count < end ? find(round.arms[begin + count]) : nullptr;
      } while (ridge != nullptr && next == ridge && count < kTogether);
      if (ridge != nullptr) {
        ridge->predict(std::span(points).first(count), std::span(said).first(count));
      } else {
        said[0] = predict(nullptr, round.arms[begin].features.values, bounds.lambda);
      }
      for (std::size_t i = 0; i < count; ++i) {
        take(round.arms[begin + i], said[i]);
      }
      begin += count;
    }
  });
}

// Returns the scores of all arms; cluster_size(arm) says how many users an arm's state draws on.
// See predict_arms for the rest.
template <class FindRidge, class ClusterSize>
std::vector<Score> score_arms(const Round& round, const UpperBounds& bounds, FindRidge find_ridge,
                              ClusterSize cluster_size) {
  std::vector<Score> scores(round.arms.size());
  predict_arms(round, bounds, find_ridge, [&](const Arm& arm, const RidgePrediction& said) {
    scores[index(arm.index)] =
        Score(said.estimate, {{"uncertainty", bounds.scale * said.uncertainty}}, cluster_size(arm));
  });
  return scores;
}

// A ridge state that judges an arm; nullptr stands for M = lambda I and w = 0.
struct Opinion {
  ArmIndex arm;
  const RidgeState* ridge;
};

// Whether some arm has so many features that x^T M^-1 x costs far more than x.w. Then
// choose_by_bounds is faster than comparing all values.
bool has_long_features(const Round& round);

// Returns the arm of the opinion with the highest value; ties go to the lowest arm. Computes the
// uncertainty only of opinions that can win: RidgeState::bound limits the others cheaply. Requires
// a checked round and at least one opinion; opinions may come in any order.
ArmIndex choose_by_bounds(const Round& round, const UpperBounds& bounds,
                          std::span<const Opinion> opinions);

// Returns the arm with the highest value; ties go to the lowest index. It is the arm that the
// scores of score_arms name, at less cost. See predict_arms for find_ridge.
template <class FindRidge>
ArmIndex choose_arm(const Round& round, const UpperBounds& bounds, FindRidge find_ridge) {
  if (has_long_features(round)) {
    std::vector<Opinion> opinions;
    opinions.reserve(round.arms.size());
    for (const Arm& arm : round.arms) {
      const std::optional<std::uint32_t> block = bounds.blocks.find(arm.features);
      opinions.push_back({arm.index, block ? find_ridge(arm, *block) : nullptr});
    }
    return choose_by_bounds(round, bounds, opinions);
  }
  std::vector<double> values(round.arms.size());
  predict_arms(round, bounds, find_ridge, [&](const Arm& arm, const RidgePrediction& said) {
    values[index(arm.index)] = bounds.value(said);
  });
  return ArmIndex{static_cast<std::uint32_t>(std::ranges::max_element(values) - values.begin())};
}

}  // namespace mcnb
