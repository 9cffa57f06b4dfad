#pragma once

#include <Eigen/Core>

namespace mcnb {

// The inverse of M = lambda I + S, where S is symmetric and has no negative eigenvalues. It is
// right in all directions even if S is so large that lambda is lost in the rounding of M.
Eigen::MatrixXd find_ridge_inverse(const Eigen::MatrixXd& m, double lambda);

}  // namespace mcnb
