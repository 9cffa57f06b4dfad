#pragma once

#include "mcnb/bandit/hierarchical/evidence.h"

namespace mcnb {

// A prior as passes over learners want it.
struct PassPrior {
  const HierarchyPrior& prior;
  RowMatrix factor;  // U, lower triangular, with Sigma = U U^T
  RowMatrix turned;  // U^T

  explicit PassPrior(const HierarchyPrior& from)
      : prior(from), factor(from.own_factor), turned(from.own_factor.transpose()) {}
};

// Computes, learner by learner, what their rewards say under one prior. Has memory that is reused
// from learner to learner; belongs to one thread. Borrows map and prior.
//
// Own coefficients are whitened: with S = C[:, own], W = I + U^T S U and X = R^-T U^T C, where
// W = R^T R, a learner's rewards say C' - X^T X about the shared coefficients, C' the sum of
// omega phi phi^T.
class LearnerPass {
 public:
  LearnerPass(const FeatureMap& map, const PassPrior& prior);

  void add_evidence(const LearnerSums& learner, Evidence& to);
  // Requires the posterior under the same prior. Of the moments the upper halves are added.
  void add_moments(const LearnerSums& learner, const SharedPosterior& shared, OwnMoments& to);

 private:
  // The columns of a system [W | U^T C | U^T t], and of [K | Phi | Phi_u U | means] in dual form.
  struct Columns {
    std::size_t features = 0;  // where the features' columns begin
    std::size_t own = 0;       // those of Phi_u U
    std::size_t last = 0;      // the vector
  };
  // Factor the systems, and return the logarithms of the determinants.
  double solve_primal(const LearnerSums& learner);
  double solve_dual(const LearnerSums& learner, const Eigen::VectorXd& values, bool with_own);
  void add_sums(const LearnerSums& learner, Evidence& to);
  void add_primal_moments(const Eigen::VectorXd& shared_mean, const RowMatrix& shared_covariance,
                          double noise, OwnMoments& to);
  void add_dual_moments(const RowMatrix& shared_covariance, double noise, OwnMoments& to);

  const FeatureMap& map_;
  const PassPrior& prior_;
  const bool is_lifted_;
  const std::size_t own_;
  const std::size_t features_;  // numbers of a sample
  Columns columns_;
  LearnerSums::Weighed weighed_;
  RowMatrix system_;
  RowMatrix turned_samples_;
  RowMatrix turned_own_;  // U^T Phi_u^T
  RowMatrix inverse_;     // R^-T
  RowMatrix product_;
  RowMatrix turned_;
  RowMatrix square_;
  RowMatrix own_information_;
  RowMatrix room_;
};

}  // namespace mcnb
