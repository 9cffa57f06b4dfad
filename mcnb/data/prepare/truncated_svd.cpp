#include "mcnb/data/prepare/truncated_svd.h"

#include <Spectra/SymEigsSolver.h>
#include <fmt/core.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::size_t kGrain = 64;  // rows per piece of work
constexpr Index kMostRestarts = 300;
constexpr double kTolerance = 1e-10;  // of an eigenvalue, relative
constexpr double kAccuracy = 1e-8;
constexpr Index kDenseSide = 64;  // up to this size a dense method is faster
constexpr double kNoSingularValue =
    1e-7;  // relative to the largest: smaller values are rounding errors

// product = matrix * vector. Sums follow the order of the row, so threads change no bit.
void multiply(const SparseMatrix& matrix, const double* vector, double* product,
              ThreadPool& threads) {
  threads.parallel_for(
      static_cast<std::size_t>(matrix.rows()), kGrain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
          double sum = 0.0;
          for (SparseMatrix::InnerIterator entry(matrix, static_cast<Index>(row)); entry; ++entry) {
            sum += static_cast<double>(entry.value()) * vector[entry.col()];
          }
          product[row] = sum;
        }
      });
}

// The interface that Spectra requires of a symmetric matrix: here A A^T / |A|^2, from A and its
// transpose. The matrix is scaled because Spectra treats numbers below a fixed bound as zero.
class Gram {
 public:
  using Scalar = double;

  Gram(const SparseMatrix& matrix, const SparseMatrix& transpose, double squared_norm,
       ThreadPool& threads)
      : matrix_(matrix),
        transpose_(transpose),
        scale_(1.0 / squared_norm),
        threads_(threads),
        between_(transpose.rows()) {}

  Index rows() const { return matrix_.rows(); }
  Index cols() const { return matrix_.rows(); }
  void perform_op(const double* vector, double* product) const {
    multiply(transpose_, vector, between_.data(), threads_);
    between_ *= scale_;
    multiply(matrix_, between_.data(), product, threads_);
  }

 private:
  const SparseMatrix& matrix_;
  const SparseMatrix& transpose_;
  double scale_;
  ThreadPool& threads_;
  mutable VectorXd between_;
};

struct Vectors {
  VectorXd values;
  MatrixXd left;
  MatrixXd right;
  std::size_t products = 0;
};

Vectors dense_svd(const SparseMatrix& matrix) {
  const MatrixXd dense = MatrixXd(matrix.cast<double>());
  const Eigen::JacobiSVD<MatrixXd> svd(dense, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {svd.singularValues(), svd.matrixU(), svd.matrixV()};
}

// Checks that A A^T v = value^2 v for all vectors, and that they are orthogonal.
bool are_singular(const Gram& gram, const VectorXd& eigenvalues, const MatrixXd& vectors) {
  VectorXd product(vectors.rows());
  for (Index k = 0; k < vectors.cols(); ++k) {
    gram.perform_op(vectors.col(k).data(), product.data());
    if (!((product - eigenvalues[k] * vectors.col(k)).norm() <= kAccuracy * eigenvalues[0])) {
      return false;
    }
  }
  const MatrixXd angles = vectors.transpose() * vectors;
  return (angles - MatrixXd::Identity(angles.rows(), angles.cols())).norm() <= kAccuracy;
}

// Requires a matrix that is not zero and has no more rows than columns.
Vectors lanczos_svd(const SparseMatrix& matrix, const SparseMatrix& transpose, Index components,
                    ThreadPool& threads) {
  const double squared_norm = matrix.cast<double>().squaredNorm();
  Gram gram(matrix, transpose, squared_norm, threads);
  const Index basis = std::min(matrix.rows(), 4 * components);
  Spectra::SymEigsSolver<Gram> solver(gram, components, basis);
  VectorXd start(matrix.rows());
  Rng rng(0, Stream::kSingularVectors);
  for (double& value : start) {
    value = rng.normal();
  }
  solver.init(start.data());
  const Index found = solver.compute(Spectra::SortRule::LargestAlge, kMostRestarts, kTolerance);
  Vectors result;
  result.left = solver.eigenvectors();
  if (found < components || !are_singular(gram, solver.eigenvalues(), result.left)) {
    throw Error(ErrorKind::kLimit,
                fmt::format("singular vectors: {} of {} were found in {} iterations", found,
                            components, solver.num_iterations()));
  }
  result.values = (solver.eigenvalues() * squared_norm).cwiseMax(0.0).cwiseSqrt();
  result.products = static_cast<std::size_t>(solver.num_operations());
  result.right.resize(matrix.cols(), components);
  for (Index k = 0; k < components; ++k) {
    multiply(transpose, result.left.col(k).data(), result.right.col(k).data(), threads);
    result.right.col(k) /= result.values[k];  // NaN for a zero value, whose column is not used
  }
  return result;
}

}  // namespace

TruncatedSvd truncated_svd(const SparseMatrix& matrix, std::size_t components,
                           ThreadPool& threads) {
  check(components > 0, "singular vectors are asked for");
  const auto wanted = static_cast<Index>(components);
  const SparseMatrix transpose = matrix.transpose();
  Vectors found;
  if (matrix.nonZeros() == 0) {
    found.values.resize(0);
  } else if (std::min(matrix.rows(), matrix.cols()) <= std::max(kDenseSide, 2 * wanted)) {
    found = dense_svd(matrix);
  } else if (matrix.rows() <= matrix.cols()) {
    found = lanczos_svd(matrix, transpose, wanted, threads);
  } else {
    found = lanczos_svd(transpose, matrix, wanted, threads);
    std::swap(found.left, found.right);
  }

  TruncatedSvd svd;
  svd.components = components;
  svd.products = found.products;
  svd.values.assign(components, 0.0);
  svd.left.assign(static_cast<std::size_t>(matrix.rows()) * components, 0.0);
  svd.right.assign(static_cast<std::size_t>(matrix.cols()) * components, 0.0);
  for (Index k = 0; k < std::min(wanted, found.values.size()); ++k) {
    if (!(found.values[k] > kNoSingularValue * found.values[0])) {
      break;
    }
    const auto column = static_cast<std::size_t>(k);
    Index farthest = 0;
    found.right.col(k).cwiseAbs().maxCoeff(&farthest);
    const double sign = found.right(farthest, k) < 0.0 ? -1.0 : 1.0;
    svd.values[column] = found.values[k];
    for (std::size_t row = 0; row < static_cast<std::size_t>(matrix.rows()); ++row) {
      svd.left[row * components + column] = sign * found.left(static_cast<Index>(row), k);
    }
    for (std::size_t row = 0; row < static_cast<std::size_t>(matrix.cols()); ++row) {
      svd.right[row * components + column] = sign * found.right(static_cast<Index>(row), k);
    }
    svd.rank = column + 1;
  }
  return svd;
}

}  // namespace mcnb
