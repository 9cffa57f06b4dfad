#include "mcnb/evaluate/estimate/reward_model.h"

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr Stream kModelStream{83};

}  // namespace

void CrossFittedModel::add(std::uint64_t round, std::span<const float> features, double reward) {
  check(features.size() == dimension_, "the features fit the model");
  lowest_ = has_rewards_ ? std::min(lowest_, reward) : reward;
  highest_ = has_rewards_ ? std::max(highest_, reward) : reward;
  has_rewards_ = true;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    if (fold != fold_of(round)) {
      learn(fold, features, reward);
    }
  }
}

void CrossFittedModel::predict(std::uint64_t round, std::span<const float> features,
                               std::span<double> rewards) {
  check(features.size() == rewards.size() * dimension_, "every action has its features");
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const double found = estimate(fold_of(round), features.subspan(i * dimension_, dimension_));
    rewards[i] = std::clamp(found, lowest_, highest_);
  }
}

CrossFittedRidge::CrossFittedRidge(std::size_t dimension, double lambda)
    : CrossFittedModel(dimension),
      without_(kFolds, RidgeState(dimension + 1, lambda)),
      input_(dimension + 1, 1.0F) {}

std::span<const float> CrossFittedRidge::with_intercept(std::span<const float> features) {
  std::ranges::copy(features, input_.begin());
  return input_;
}

void CrossFittedRidge::learn(std::size_t fold, std::span<const float> features, double reward) {
  without_[fold].add(with_intercept(features), reward);
}

double CrossFittedRidge::estimate(std::size_t fold, std::span<const float> features) {
  return without_[fold].estimate(with_intercept(features));
}

CrossFittedNetwork::CrossFittedNetwork(std::size_t dimension, std::uint64_t seed)
    : CrossFittedModel(dimension),
      shape_{.inputs = static_cast<std::uint32_t>(dimension),
             .width = kWidth,
             .depth = 2,
             .biases = true},
      seed_(seed),
      folds_(kFolds) {
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    folds_[fold].network = random_network(shape_, Initialisation::kSymmetric, seed, fold);
  }
}

void CrossFittedNetwork::learn(std::size_t fold, std::span<const float> features, double reward) {
  Fold& own = folds_[fold];
  own.inputs.insert(own.inputs.end(), features.begin(), features.end());
  own.rewards.push_back(static_cast<float>(reward));
  if (own.rewards.size() == kRoundsAtOnce) {
    train(fold, kEpochs * kRoundsAtOnce);
  }
}

void CrossFittedNetwork::finish() {
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    const std::uint64_t left = folds_[fold].rewards.size();
    if (left > 0) {
      train(fold, folds_[fold].parts == 0 ? std::max(kLeastSteps, kEpochs * left) : kEpochs * left);
    }
  }
}

void CrossFittedNetwork::train(std::size_t fold, std::uint64_t steps) {
  Fold& own = folds_[fold];
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < own.rewards.size(); ++i) {
    samples.push_back({{std::span<const float>(own.inputs).subspan(i * dimension(), dimension())},
                       own.rewards[i]});
  }
  Rng rng(seed_, kModelStream, own.parts++, static_cast<std::uint32_t>(fold));
  train_network(shape_, own.network, samples, {.step_limit = steps, .stop_loss = 0.0}, rng,
                scratch_);
  own.inputs.clear();
  own.rewards.clear();
}

double CrossFittedNetwork::estimate(std::size_t fold, std::span<const float> features) {
  find_gradient(shape_, folds_[fold].network, {features}, factors_);
  return static_cast<double>(factors_.value);
}

}  // namespace mcnb
