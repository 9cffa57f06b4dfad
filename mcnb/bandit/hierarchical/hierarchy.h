#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/evidence.h"
#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/bandit/hierarchical/own_learner.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/symmetric_matrix.h"

namespace mcnb {

// What empirical Bayes chooses: prior variances by group of features, relative to the noise's, and
// how a user's own coefficients vary together.
struct HierarchyScales {
  ByFeatureGroup<double> shared{10.0, 1.0, 1.0, 1.0};
  ByFeatureGroup<double> own{0.03, 0.3, 0.3, 0.0};
  double memory = 0.03;         // tau; 0 turns the memory off
  Eigen::MatrixXd correlation;  // R; the own covariance is D^(1/2) R D^(1/2)
};

// A linear Gaussian model in two levels:
//
//   reward = phi(x) . w0 + phi_u(x) . delta_u + xi_{u,x} + noise
//
// w0 ~ N(0, diag(v0)) is what all users share, delta_u ~ N(0, Sigma) how user u differs, xi ~ N(0,
// tau) what is special about this very arm for this user, and noise ~ N(0, sigma^2). Inference is
// exact: after any sequence of rewards the state is the Gaussian conditional of the whole model.
//
// One learner per user (or per user and feature block). A prediction and a reward touch one learner
// and the shared coefficients: their cost does not grow with the number of users.
class Hierarchy {
 public:
  // Borrows the threads.
  Hierarchy(FeatureMap map, ThreadPool& threads);

  const FeatureMap& map() const { return map_; }
  const HierarchyScales& scales() const { return scales_; }
  const HierarchyPrior& prior() const { return prior_; }
  std::size_t learner_count() const { return learners_.size(); }
  const OwnLearner& learner(std::size_t index) const { return learners_[index]; }
  const Eigen::VectorXd& shared_mean() const { return mean_; }
  // Rewards of all learners.
  double reward_count() const { return reward_count_; }

  // Returns the new learner's index. `user` is the user's features, as many as the map asks for.
  std::size_t add_learner(std::span<const float> user);

  // The posterior of an arm's expected reward. Its mean is shared + own + memory.
  struct Prediction {
    double shared = 0.0;    // phi . w0
    double own = 0.0;       // phi_u . delta_u
    double memory = 0.0;    // what the learner's own rewards for this very arm add
    double variance = 0.0;  // relative to the noise's

    double mean() const { return shared + own + memory; }
  };
  // Predicts arms for a learner, or with kNoLearner for a user without rewards.
  static constexpr std::size_t kNoLearner = ~std::size_t{0};
  void predict(std::size_t learner, std::span<const float> user,
               std::span<const std::span<const float>> arms, std::vector<Prediction>& predictions);

  // Adds a reward and returns the squared error of its prediction in units of its variance.
  double learn(std::size_t learner, std::span<const float> arm, float reward);

  // Removes all of a learner's rewards: the state is then that of a model that never saw them, with
  // the same scales and noise.
  void forget(std::size_t learner);

  // The logarithm of the marginal likelihood of all rewards under other scales, up to a constant,
  // with the noise's variance that maximises it, and the prior of the scales.
  double log_evidence(const HierarchyScales& scales) const;
  // Computes the posterior under other scales, from all rewards.
  void install(HierarchyScales scales);
  // Chooses the scales that make the rewards most likely, starting from the present ones, and
  // installs them.
  void fit(bool correlations = true);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  std::span<const float> user_of(std::size_t learner) const;
  HierarchyPrior prior_of(const HierarchyScales& scales) const;
  void find_squares();
  RewardSums sum_rewards(double memory) const;
  void install(HierarchyScales scales, const RewardSums& sums);
  void improve_memory(HierarchyScales& scales, RewardSums& sums) const;

  FeatureMap map_;
  ThreadPool& threads_;
  HierarchyScales scales_;
  HierarchyPrior prior_;
  Eigen::VectorXd mean_;        // w0
  SymmetricMatrix covariance_;  // P, relative to the noise's variance
  std::vector<OwnLearner> learners_;
  std::vector<float> user_features_;  // by learner
  double reward_count_ = 0.0;

  Eigen::MatrixXd arms_;  // memory of predictions, to be reused
  AlignedDoubles residuals_;
  std::vector<double> squares_;
  Projection projection_;
  ProjectionScratch scratch_;
};

}  // namespace mcnb
