#pragma once

#include <Eigen/Dense>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// What empirical Bayes chooses: prior variances by group of features, relative to the noise's, and
// how a user's own coefficients vary together.
struct HierarchyScales {
  ByFeatureGroup<double> shared{10.0, 1.0, 1.0, 1.0, 0.01};
  ByFeatureGroup<double> own{0.03, 0.3, 0.3, 0.0, 1.0};
  double memory = 0.03;  // tau; 0 turns the memory off
  // R, close to a correlation matrix: the own covariance is D^(1/2) R D^(1/2), D the own scales.
  Eigen::MatrixXd correlation;

  bool operator==(const HierarchyScales& other) const;
  void save(StateWriter& writer) const;
  // Requires a correlation of the saved one's size.
  void load(StateReader& reader);
};

// The prior of the hierarchical model (hierarchy.h). All variances but the noise's own are relative
// to that of the noise.
struct HierarchyPrior {
  double noise = 0.1;      // sigma^2: variance of a reward around its expectation
  double memory = 0.03;    // tau: variance of what is special about one arm for one user; 0: none
  Eigen::VectorXd shared;  // v0: variances of the shared coefficients
  Eigen::MatrixXd own;     // Sigma: covariance of a user's own coefficients
  Eigen::MatrixXd own_factor;  // lower triangular, with own = own_factor own_factor^T
};

HierarchyPrior prior_of(const FeatureMap& map, const HierarchyScales& scales, double noise);

}  // namespace mcnb
