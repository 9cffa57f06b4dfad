#include "mcnb/evaluate/estimate/reward_model.h"

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {

CrossFittedModel::CrossFittedModel(std::size_t dimension, double lambda)
    : dimension_(dimension),
      without_(kFolds, RidgeState(dimension + 1, lambda)),
      input_(dimension + 1, 1.0F) {}

std::span<const float> CrossFittedModel::with_intercept(std::span<const float> features) {
  std::ranges::copy(features, input_.begin());
  return input_;
}

void CrossFittedModel::add(std::uint64_t round, std::span<const float> features, double reward) {
  check(features.size() == dimension_, "the features fit the model");
  lowest_ = has_rewards_ ? std::min(lowest_, reward) : reward;
  highest_ = has_rewards_ ? std::max(highest_, reward) : reward;
  has_rewards_ = true;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    if (fold != fold_of(round)) {
      without_[fold].add(with_intercept(features), reward);
    }
  }
}

void CrossFittedModel::predict(std::uint64_t round, std::span<const float> features,
                               std::span<double> rewards) {
  check(features.size() == rewards.size() * dimension_, "every action has its features");
  const RidgeState& model = without_[fold_of(round)];
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const double estimate =
        model.estimate(with_intercept(features.subspan(i * dimension_, dimension_)));
    rewards[i] = std::clamp(estimate, lowest_, highest_);
  }
}

}  // namespace mcnb
