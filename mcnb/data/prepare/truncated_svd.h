#pragma once

#include <Eigen/SparseCore>
#include <cstddef>
#include <vector>

#include "mcnb/base/thread_pool.h"

namespace mcnb {

using SparseMatrix = Eigen::SparseMatrix<float, Eigen::RowMajor>;

// The leading singular values and vectors of a matrix: A is about left * diag(values) * right^T.
//
// If the rank of the matrix is less than `components`, the remaining values and vectors are zero.
// The sign of a pair of vectors makes the entry of the right one that is farthest from zero (ties:
// the first) positive.
struct TruncatedSvd {
  std::size_t components = 0;
  std::size_t rank = 0;        // how many values are not zero
  std::vector<double> values;  // descending
  std::vector<double> left;    // row by row, `components` numbers each; columns have unit length
  std::vector<double> right;   // likewise, a row for every column of the matrix
  std::size_t products = 0;    // products with the matrix and with its transpose, counted together
};

// Uses Lanczos iterations with implicit restarts (Spectra), which keep the matrix sparse. The
// result has the same bits with any number of threads. A singular value with a high multiplicity
// may be found fewer times, with smaller values instead. Throws Error (kLimit) if the iterations do
// not converge.
TruncatedSvd truncated_svd(const SparseMatrix& matrix, std::size_t components, ThreadPool& threads);

}  // namespace mcnb
