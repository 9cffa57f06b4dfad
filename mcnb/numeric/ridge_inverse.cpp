#include "mcnb/numeric/ridge_inverse.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <limits>

namespace mcnb {
namespace {

constexpr double kSmallestConditionForCholesky = 1e-13;

}  // namespace

Eigen::MatrixXd find_ridge_inverse(const Eigen::MatrixXd& m, double lambda) {
  const Eigen::Index d = m.rows();
  const Eigen::LLT<Eigen::MatrixXd> cholesky(m);
  if (cholesky.info() == Eigen::Success && cholesky.rcond() > kSmallestConditionForCholesky) {
    return cholesky.solve(Eigen::MatrixXd::Identity(d, d));
  }
  // Samples can be so large that lambda is lost in the rounding of M. An eigenvalue within the
  // rounding error must then be lambda, since M - lambda I has no negative eigenvalues.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(m);
  const Eigen::VectorXd& values = eigen.eigenvalues();
  const double rounding =
      static_cast<double>(d) * std::numeric_limits<double>::epsilon() * values.maxCoeff();
  const Eigen::VectorXd inverses =
      (values.array() > rounding).select(values.array().max(lambda), lambda).inverse();
  return eigen.eigenvectors() * inverses.asDiagonal() * eigen.eigenvectors().transpose();
}

}  // namespace mcnb
