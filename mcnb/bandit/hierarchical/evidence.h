#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/hierarchy_prior.h"
#include "mcnb/bandit/hierarchical/learner_sums.h"
#include "mcnb/bandit/hierarchical/row_matrix.h"
#include "mcnb/base/thread_pool.h"

namespace mcnb {

// What rewards say about the shared coefficients, and how likely they are, all own coefficients
// integrated out.
struct Evidence {
  RowMatrix information;     // A; only the upper half is defined
  Eigen::VectorXd weighted;  // b
  double quadratic = 0.0;    // r^T V^-1 r, V the rewards' covariance given the shared coefficients
  double log_determinant = 0.0;  // of V
  double rewards = 0.0;          // their number

  explicit Evidence(std::size_t shared_size);
  void add(const Evidence& other);
};

// The posterior of the shared coefficients, and how likely the rewards are.
struct SharedPosterior {
  Eigen::VectorXd mean;       // w0
  RowMatrix covariance;       // P, relative to the noise's variance
  double noise = 0.0;         // sigma^2, the most likely one
  double log_evidence = 0.0;  // of the rewards, up to a constant
};
SharedPosterior shared_posterior(const Evidence& evidence, const HierarchyPrior& prior);

// How far rewards lie from what a prior expects: up to a constant, the logarithm of their density
// is -(squares / noise + rewards ln noise + log_determinant) / 2.
struct Misfit {
  double squares = 0.0;  // r^T V^-1 r, V the rewards' covariance in units of the noise's variance
  double log_determinant = 0.0;  // of V
  double rewards = 0.0;

  // The most likely variance of the noise, and the logarithm of the density with it.
  double noise() const;
  double log_evidence() const;
};
Misfit misfit(const Evidence& evidence, const HierarchyPrior& prior);

// The posterior second moments of the own coefficients, summed over learners, in units of the
// noise's variance: of their means (delta delta^T / sigma^2), and their covariances. The
// coordinates are those in which the prior covariance is the identity: with Sigma = U U^T, delta is
// U times the vector that they describe.
struct OwnMoments {
  RowMatrix means;
  RowMatrix covariances;
  double learners = 0.0;

  explicit OwnMoments(std::size_t own_size);
};

// Sums over the rewards of some learners, which serve any prior.
class RewardSums {
 public:
  // Borrows the map.
  explicit RewardSums(const FeatureMap& map) : map_(&map) {}

  // Adds the rewards of more learners.
  void add(std::span<const HistoryBook::Entry> learners, ThreadPool& threads);

  // The number of learners with rewards.
  std::size_t learner_count() const { return learners_.size(); }
  // The sum of omega phi phi^T over the arms of all learners, of own features.
  RowMatrix own_information(double memory) const;
  Evidence evidence(const HierarchyPrior& prior, ThreadPool& threads) const;
  // Requires the posterior under the same prior.
  OwnMoments own_moments(const HierarchyPrior& prior, const SharedPosterior& shared,
                         ThreadPool& threads) const;

 private:
  // Where features are not lifted: sums over arms of all learners in primal form, of shared
  // features, by the arms' number of rewards.
  struct Total {
    RowMatrix information;  // the upper half
    Eigen::VectorXd weighted;
  };

  void add_totals(LearnerSums& learner);

  const FeatureMap* map_;
  std::vector<LearnerSums> learners_;
  std::map<double, Total> totals_;
};

}  // namespace mcnb
