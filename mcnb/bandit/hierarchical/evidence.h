#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/own_learner.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/symmetric_matrix.h"

namespace mcnb {

// What rewards say about the shared coefficients, and how likely they are, all own coefficients
// integrated out.
struct Evidence {
  SymmetricMatrix information;  // A
  Eigen::VectorXd weighted;     // b
  double quadratic = 0.0;  // r^T V^-1 r, V the rewards' covariance given the shared coefficients
  double log_determinant = 0.0;  // of V
  double rewards = 0.0;          // their number

  explicit Evidence(std::size_t shared_size);
  void add(const Evidence& other);
};

// The posterior of the shared coefficients, and how likely the rewards are.
struct SharedPosterior {
  Eigen::VectorXd mean;        // w0
  SymmetricMatrix covariance;  // P, relative to the noise's variance
  double noise = 0.0;          // sigma^2, the most likely one
  double log_evidence = 0.0;   // of the rewards, up to a constant
};
SharedPosterior shared_posterior(const Evidence& evidence, const HierarchyPrior& prior,
                                 ThreadPool& threads);

// The posterior second moments of the own coefficients, summed over learners, in units of the
// noise's variance: of their means (delta delta^T / sigma^2), and their covariances.
struct OwnMoments {
  Eigen::MatrixXd means;
  Eigen::MatrixXd covariances;
  double learners = 0.0;
};

// The sums over rewards that the evidence is made of. They depend on the memory's variance, but on
// no other part of the prior, so that one object serves many priors.
class RewardSums {
 public:
  // Borrows the map.
  RewardSums(const FeatureMap& map, double memory);

  // Adds the rewards of one more learner.
  void add(const RewardHistory& history, std::span<const float> user, ThreadPool& threads);

  double memory() const { return memory_; }
  // The sum of omega phi phi^T over the arms of all learners, of own features, and the number of
  // learners with rewards.
  Eigen::MatrixXd own_information() const;
  std::size_t learner_count() const { return primals_.size() + duals_.size(); }
  // Requires a prior with the same variance of the memory.
  Evidence evidence(const HierarchyPrior& prior, ThreadPool& threads) const;
  // Requires the posterior under the same prior.
  OwnMoments own_moments(const HierarchyPrior& prior, const SharedPosterior& shared,
                         ThreadPool& threads) const;

 private:
  // The sums of a learner with at least as many arms as own features.
  struct Primal {
    Eigen::MatrixXd information;  // C
    Eigen::VectorXd weighted;     // t
  };
  // The samples of a learner with fewer arms than own features.
  struct Dual {
    Eigen::MatrixXd samples;  // a column of shared features each
    Eigen::VectorXd weights;  // omega
    Eigen::VectorXd means;
  };

  const FeatureMap* map_;
  double memory_;
  Evidence all_;  // what does not depend on the prior, of all learners
  std::vector<Primal> primals_;
  std::vector<Dual> duals_;
};

}  // namespace mcnb
