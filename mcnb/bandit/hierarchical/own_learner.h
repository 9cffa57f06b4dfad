#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/bandit/hierarchical/hierarchy_prior.h"
#include "mcnb/bandit/hierarchical/reward_history.h"
#include "mcnb/bandit/hierarchical/row_matrix.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// The smallest weight of a reward that still counts. A smaller one would change nothing but
// rounding.
inline constexpr double kSmallestRewardWeight = 1e-9;

// How much the arms' mean rewards count (omega), and the means themselves.
Eigen::VectorXd weights_of(std::span<const ArmRewards> rewards, double memory);
Eigen::VectorXd means_of(std::span<const ArmRewards> rewards);
// I + U^T S U, where Sigma = U U^T and S = Phi_u^T Omega Phi_u.
Eigen::MatrixXd whitened_information(const Eigen::MatrixXd& information,
                                     const HierarchyPrior& prior);

// Arms as one user's own coefficients leave them to the shared ones: an arm's expected reward is
// residual . w0 + own_mean, given the shared coefficients w0, and own_variance its variance.
struct Projection {
  Eigen::MatrixXd residual;      // f, a column per arm
  Eigen::VectorXd own_variance;  // phi_u . H phi_u
  Eigen::VectorXd own_mean;      // phi_u . H t
};

// Memory of projections, to be reused; belongs to one thread. The matrices may have more rows and
// columns than are in use.
struct ProjectionScratch {
  RowMatrix samples;     // dual: the samples' features, a row each
  RowMatrix dual;        // dual: the matrix, unpacked
  RowMatrix prior_arms;  // dual: Sigma phi_u, a row per arm
  RowMatrix turned;      // dual: its transpose
  RowMatrix overlaps;    // dual: prior covariance of samples and arms, a row per sample
  RowMatrix direction;   // a row per arm; dual: `dual` times overlaps; primal: H phi_u
  RowMatrix explained;   // of the arms' features, a row per arm
  RowMatrix system;      // of a learner that is rebuilt in dual form
  RowMatrix inverse;     // R^-T, where the system is R^T R
};

// What one user's rewards say about the user's own coefficients delta_u, given the shared ones. The
// rewards themselves are in a history that the caller keeps.
//
// With fewer arms than own features the learner is in dual form: one small matrix beside the
// samples of the history, (diag(1/omega) + Phi_u Sigma Phi_u^T)^-1. With more it is in primal form:
// H, C and t, whose size does not depend on the number of samples. Both give the same numbers up to
// rounding.
class OwnLearner {
 public:
  // Projects arms, a column of shared features each.
  void project(const FeatureMap& map, const HierarchyPrior& prior, const RewardHistory& history,
               std::span<const float> user, const Eigen::MatrixXd& arms, Projection& out,
               ProjectionScratch& scratch) const;

  // How much the next reward of an arm counts (w) and the value it stands for (y), given the
  // rewards of the arm so far.
  struct Step {
    double weight = 1.0;
    double value = 0.0;
  };
  static Step next_step(const ArmRewards& before, double reward, double memory);

  // Takes in a reward that is about to be added to the history, of the arm `known` there or of a
  // new one. Requires that the last use of `scratch` was to project this arm alone with this
  // learner, and `features`, that arm's shared features. If it returns true, call `rebuild` after
  // the reward is in the history.
  bool add(const FeatureMap& map, const RewardHistory& history, std::optional<std::size_t> known,
           const Step& step, const Eigen::VectorXd& features, double own_variance,
           ProjectionScratch& scratch);

  // Computes the form that the history's size asks for, under any prior.
  void rebuild(const FeatureMap& map, const HierarchyPrior& prior, const RewardHistory& history,
               std::span<const float> user, ProjectionScratch& scratch);

  // The expectation of the own coefficients, given the shared ones. Requires that the learner was
  // rebuilt under this prior.
  Eigen::VectorXd mean(const FeatureMap& map, const HierarchyPrior& prior,
                       const RewardHistory& history, std::span<const float> user,
                       const Eigen::VectorXd& shared) const;

  // Frees the matrices. The learner must be rebuilt before it is used again.
  void drop();

  std::size_t memory_bytes() const;
  void save(StateWriter& writer, const FeatureMap& map, std::span<const float> user) const;
  void load(StateReader& reader, const FeatureMap& map, const RewardHistory& history,
            std::span<const float> user);

 private:
  // Where features are linear in the own ones (UserLift), of C and of samples only the columns of
  // own features are kept.
  struct Primal {
    RowMatrix covariance;      // H
    RowMatrix information;     // C = Phi_u^T Omega Phi
    Eigen::VectorXd weighted;  // t = Phi_u^T Omega y
  };

  void project_primal(const Operand& own_arms, Projection& out, ProjectionScratch& scratch) const;
  void project_dual(const FeatureMap& map, const HierarchyPrior& prior,
                    const RewardHistory& history, std::span<const float> user,
                    const Operand& own_arms, Projection& out, ProjectionScratch& scratch) const;
  void rebuild_dual(const FeatureMap& map, const HierarchyPrior& prior,
                    const RewardHistory& history, ProjectionScratch& scratch);
  void rebuild_primal(const FeatureMap& map, const HierarchyPrior& prior,
                      const RewardHistory& history, const RowMatrix& samples);
  void unpack_dual(std::size_t arms, RowMatrix& out) const;
  const RowMatrix& samples_of(const FeatureMap& map, const RewardHistory& history,
                              std::span<const float> user, RowMatrix& room) const;
  void keep_sample(std::size_t index, const FeatureMap& map, const Eigen::VectorXd& features);

  std::vector<double> dual_;  // lower triangle, row by row; empty in primal form
  // Dual, if features have a body: the features of the arms, which would cost much time to compute
  // again for every prediction. A row each, and room for more.
  std::unique_ptr<RowMatrix> samples_;
  std::unique_ptr<Primal> primal_;
};

}  // namespace mcnb
