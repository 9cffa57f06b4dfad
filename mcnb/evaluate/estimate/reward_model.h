#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/numeric/ridge.h"

namespace mcnb {

// A model of the reward of an action: one ridge regression with an intercept for each fold of the
// rounds, which learns the rounds of all other folds. So no round is predicted by a model that has
// seen its reward.
class CrossFittedModel {
 public:
  static constexpr std::size_t kFolds = 5;

  CrossFittedModel(std::size_t dimension, double lambda);

  // Rounds are numbered in the order of the log; neighbours are in different folds.
  static std::size_t fold_of(std::uint64_t round) { return round % kFolds; }

  // Learns the reward of the logged action of a round.
  void add(std::uint64_t round, std::span<const float> features, double reward);

  // The expected rewards of actions of a round, whose features stand one after the other, cut to
  // the range of the rewards that were learned.
  void predict(std::uint64_t round, std::span<const float> features, std::span<double> rewards);

 private:
  std::span<const float> with_intercept(std::span<const float> features);

  std::size_t dimension_;
  std::vector<RidgeState> without_;  // each fold
  std::vector<float> input_;
  double lowest_ = 0.0;
  double highest_ = 0.0;
  bool has_rewards_ = false;
};

}  // namespace mcnb
