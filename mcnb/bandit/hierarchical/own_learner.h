#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// The prior of the hierarchical model (hierarchy.h). All variances but the noise's own are relative
// to that of the noise.
struct HierarchyPrior {
  double noise = 0.1;      // sigma^2: variance of a reward around its expectation
  double memory = 0.03;    // tau: variance of what is special about one arm for one user; 0: none
  Eigen::VectorXd shared;  // v0: variances of the shared coefficients
  Eigen::MatrixXd own;     // Sigma: covariance of a user's own coefficients
  Eigen::MatrixXd own_factor;  // lower triangular, with own = own_factor own_factor^T
};

// The smallest weight of a reward that still counts. A smaller one would change nothing but
// rounding.
inline constexpr double kSmallestRewardWeight = 1e-9;

// The rewards of one learner for one arm. Repeats are kept as one entry, which loses nothing.
struct ArmRewards {
  double count = 0.0;
  double sum = 0.0;

  using Stored = StoredInOrder<&ArmRewards::count, &ArmRewards::sum>;

  double mean() const { return sum / count; }
  // omega: how much the mean counts, given that the arm has a part of its own that repeats share.
  double weight(double memory) const { return count / (1.0 + count * memory); }
};

// How much the arms' mean rewards count (omega), and the means themselves.
Eigen::VectorXd weights_of(std::span<const ArmRewards> rewards, double memory);
Eigen::VectorXd means_of(std::span<const ArmRewards> rewards);
// diag(1/omega) + Phi_u Sigma Phi_u^T: the covariance of the arms' mean rewards, given the shared
// coefficients, of samples with these shared features.
Eigen::MatrixXd covariance_of_means(const Eigen::MatrixXd& samples, const HierarchyPrior& prior,
                                    const Eigen::VectorXd& weights);
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

// Memory of projections, to be reused; belongs to one thread.
struct ProjectionScratch {
  Eigen::MatrixXd samples;     // dual: the samples' shared features, a column each
  Eigen::MatrixXd dual;        // dual: the matrix, unpacked
  Eigen::MatrixXd prior_arms;  // dual: Sigma phi_u
  Eigen::MatrixXd overlaps;    // dual: prior covariance of samples and arms
  Eigen::MatrixXd direction;   // dual: `dual` times overlaps; primal: H phi_u
};

// What one user's rewards say about the user's own coefficients delta_u, given the shared ones.
//
// With fewer arms than own features the learner is in dual form: it keeps its samples and one small
// matrix, (diag(1/omega) + Phi_u Sigma Phi_u^T)^-1. With more it is in primal form: H, C and t,
// whose size does not depend on the number of samples. Both give the same numbers up to rounding.
class OwnLearner {
 public:
  // Distinct arms.
  std::size_t arm_count() const { return rewards_.size(); }
  double reward_count() const { return reward_count_; }
  double squared_rewards() const { return squared_rewards_; }
  std::span<const ArmRewards> rewards() const { return rewards_; }
  std::span<const float> arm(std::size_t index) const {
    return std::span(values_).subspan(index * inputs(), inputs());
  }

  // The index of an arm with these very numbers, bit for bit.
  std::optional<std::size_t> find(std::span<const float> arm) const;

  // Projects arms, a column of shared features each.
  void project(const FeatureMap& map, const HierarchyPrior& prior, std::span<const float> user,
               const Eigen::MatrixXd& arms, Projection& out, ProjectionScratch& scratch) const;

  // How much the next reward of an arm counts (w) and the value it stands for (y), given the
  // rewards of the arm so far.
  struct Step {
    double weight = 1.0;
    double value = 0.0;
  };
  static Step next_step(const ArmRewards& before, double reward, double memory);

  // Adds a reward of an arm. Requires that the last use of `scratch` was to project this arm alone
  // with this learner, and `features`, that arm's shared features. Call `rebuild` if it returns
  // true.
  bool add(const FeatureMap& map, const HierarchyPrior& prior, std::span<const float> arm,
           const Eigen::VectorXd& features, double own_variance, float reward,
           ProjectionScratch& scratch);

  // Puts the learner into the form that its size asks for, under another prior.
  void rebuild(const FeatureMap& map, const HierarchyPrior& prior, std::span<const float> user);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader, const FeatureMap& map);

  // Writes the samples' shared features, a column each.
  void expand_samples(const FeatureMap& map, std::span<const float> user,
                      Eigen::MatrixXd& out) const;

 private:
  struct Primal {
    Eigen::MatrixXd covariance;   // H
    Eigen::MatrixXd information;  // C = Phi_u^T Omega Phi
    Eigen::VectorXd weighted;     // t = Phi_u^T Omega y
  };

  std::size_t inputs() const { return rewards_.empty() ? 0 : values_.size() / rewards_.size(); }
  void unpack_dual(Eigen::MatrixXd& out) const;

  std::vector<float> values_;  // of the arms, one after the other
  std::vector<ArmRewards> rewards_;
  std::vector<std::uint64_t> hashes_;  // of the arms' numbers
  double reward_count_ = 0.0;
  double squared_rewards_ = 0.0;
  std::vector<double> dual_;  // lower triangle, row by row; empty in primal form
  std::unique_ptr<Primal> primal_;
};

}  // namespace mcnb
