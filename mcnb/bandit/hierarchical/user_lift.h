#pragma once

#include <span>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/bandit/hierarchical/reward_history.h"
#include "mcnb/bandit/hierarchical/row_matrix.h"

namespace mcnb {

// The shared features of one user's arms as a linear function of the own ones, phi = M phi_u: each
// feature of the user times the leading own features, which are the constant and the numbers. So
// sums over the arms of one user are needed for the own features alone. Borrows the user's numbers.
class UserLift {
 public:
  // Whether there is such an M: not if only the shared features have products.
  static bool exists(const FeatureMap& map);
  // Requires that it exists.
  UserLift(const FeatureMap& map, std::span<const float> user);

  // shared += M own M^T. Of symmetric matrices only the upper halves are read and written.
  void add_lifted(const RowMatrix& own, RowMatrix& shared) const;
  // shared += M own
  void add_lifted(const Eigen::VectorXd& own, Eigen::VectorXd& shared) const;
  // shared -= M own
  void subtract_lifted(const Eigen::Ref<const Eigen::VectorXd>& own,
                       Eigen::Ref<Eigen::VectorXd> shared) const;
  // own M^T
  Eigen::MatrixXd expanded(const RowMatrix& own) const;
  // M^T shared M of a whole symmetric matrix. Returns `shared` itself where M is the identity, and
  // otherwise `room`.
  const RowMatrix& restricted(const RowMatrix& shared, RowMatrix& room) const;
  // M^T shared
  Eigen::VectorXd restricted(const Eigen::VectorXd& shared) const;

 private:
  Eigen::Index begin_of(std::size_t feature) const {
    return own_ + static_cast<Eigen::Index>(feature) * leading_;
  }
  double number(std::size_t feature) const { return static_cast<double>(user_[feature]); }

  Eigen::Index own_;      // own features
  Eigen::Index leading_;  // those that the user's features are multiplied with
  std::span<const float> user_;
};

// The numbers of a sample that sums over the arms of one user need: its own features where all
// features are linear in them, otherwise its shared ones.
std::size_t sample_size(const FeatureMap& map);
// Writes these features of the arms of a history to the first rows and columns, a row each.
void expand_samples(const FeatureMap& map, const RewardHistory& history,
                    std::span<const float> user, RowMatrix& out);

}  // namespace mcnb
