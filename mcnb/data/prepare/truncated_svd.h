#pragma once

#include <Eigen/SparseCore>
#include <cstddef>
#include <vector>

#include "mcnb/base/thread_pool.h"

namespace mcnb {

using SparseMatrix = Eigen::SparseMatrix<float, Eigen::RowMajor>;

// The leading singular values and vectors of a matrix: A is about left * diag(values) * right^T.
//
// Where the rank of the matrix is less than `components`, values and vectors beyond it are zero.
// The sign of a pair of vectors is such that the entry of the right one that is farthest from zero
// (the first of equals) is positive.
struct TruncatedSvd {
  std::size_t components = 0;
  std::size_t rank = 0;        // how many values are not zero
  std::vector<double> values;  // descending
  std::vector<double> left;    // row by row, `components` numbers each; columns have unit length
  std::vector<double> right;   // likewise, a row for every column of the matrix
  std::size_t products = 0;    // with the matrix and its transpose, each time both
};

// By Lanczos iterations with implicit restarts (Spectra), which never fill the matrix up. The same
// matrix gives the same bits with any number of threads. A singular value that occurs many times
// over may be found fewer times, and smaller ones in its place. Throws Error (kLimit) where the
// iterations do not converge.
TruncatedSvd truncated_svd(const SparseMatrix& matrix, std::size_t components, ThreadPool& threads);

}  // namespace mcnb
