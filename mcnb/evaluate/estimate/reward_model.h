#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mcnb/numeric/network.h"
#include "mcnb/numeric/ridge.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

// A model of the reward of an action, one for each fold of the rounds, which learns the rounds of
// all other folds. So no round is predicted by a model that has seen its reward.
class CrossFittedModel {
 public:
  static constexpr std::size_t kFolds = 5;

  virtual ~CrossFittedModel() = default;

  // Rounds are numbered in the order of the log; neighbours are in different folds.
  static std::size_t fold_of(std::uint64_t round) { return round % kFolds; }

  // Learns the reward of the logged action of a round.
  void add(std::uint64_t round, std::span<const float> features, double reward);
  // Call it after the last round.
  virtual void finish() {}

  // The expected rewards of actions of a round, whose features stand one after the other, cut to
  // the range of the rewards that were learned.
  void predict(std::uint64_t round, std::span<const float> features, std::span<double> rewards);

 protected:
  explicit CrossFittedModel(std::size_t dimension) : dimension_(dimension) {}

  std::size_t dimension() const { return dimension_; }
  virtual void learn(std::size_t fold, std::span<const float> features, double reward) = 0;
  virtual double estimate(std::size_t fold, std::span<const float> features) = 0;

 private:
  std::size_t dimension_;
  double lowest_ = 0.0;
  double highest_ = 0.0;
  bool has_rewards_ = false;
};

// Ridge regressions with an intercept.
class CrossFittedRidge : public CrossFittedModel {
 public:
  CrossFittedRidge(std::size_t dimension, double lambda);

 private:
  void learn(std::size_t fold, std::span<const float> features, double reward) override;
  double estimate(std::size_t fold, std::span<const float> features) override;
  std::span<const float> with_intercept(std::span<const float> features);

  std::vector<RidgeState> without_;  // each fold
  std::vector<float> input_;
};

// Networks with one hidden layer, trained by Adam on so many rounds at a time, several times over.
// Equal seeds give equal networks.
class CrossFittedNetwork : public CrossFittedModel {
 public:
  static constexpr std::uint32_t kWidth = 32;
  static constexpr std::size_t kRoundsAtOnce = 4096;
  static constexpr std::uint64_t kEpochs = 4;           // of each part of a long log
  static constexpr std::uint64_t kLeastSteps = 10'000;  // of a log that is one part

  CrossFittedNetwork(std::size_t dimension, std::uint64_t seed);

  void finish() override;

 private:
  struct Fold {
    std::vector<float> network;
    std::vector<float> inputs;  // of the rounds that are not learned yet
    std::vector<float> rewards;
    std::uint64_t parts = 0;  // that were learned
  };

  void learn(std::size_t fold, std::span<const float> features, double reward) override;
  double estimate(std::size_t fold, std::span<const float> features) override;
  void train(std::size_t fold, std::uint64_t steps);

  NetworkShape shape_;
  std::uint64_t seed_;
  std::vector<Fold> folds_;
  TrainingScratch scratch_;
  GradientFactors factors_;
};

}  // namespace mcnb
