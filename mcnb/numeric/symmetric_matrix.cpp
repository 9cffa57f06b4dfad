#include "mcnb/numeric/symmetric_matrix.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using kernels::kBlock;
using kernels::kBlockSize;

constexpr std::size_t kBlocksOfASlice = 512;  // 256 KiB, about: worth a thread
constexpr std::size_t kMostSlices = 64;

// Begins of slices that divide the lower half of a matrix into parts of about equal work. They
// depend on the number of block rows only, so that sums have the same order on any number of
// threads.
std::vector<std::size_t> cut(std::size_t blocks) {
  const std::size_t all = blocks * (blocks + 1) / 2;
  const std::size_t count = std::clamp<std::size_t>(all / kBlocksOfASlice, 1, kMostSlices);
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i <= count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count);
    starts.push_back(
        static_cast<std::size_t>(std::llround(static_cast<double>(blocks) * std::sqrt(share))));
  }
  return starts;
}

}  // namespace

SymmetricMatrix::SymmetricMatrix(std::size_t size, double diagonal)
    : size_(size), blocks_((size + kBlock - 1) / kBlock), slices_(cut(blocks_)) {
  check(size > 0, "a matrix has rows");
  values_.assign(kernels::block_row_start(blocks_), 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    at(i, i) = diagonal;
  }
}

double& SymmetricMatrix::at(std::size_t i, std::size_t j) {
  return block_row(i / kBlock)[j / kBlock * kBlockSize + i % kBlock * kBlock + j % kBlock];
}

template <class Body>
void SymmetricMatrix::for_slices(ThreadPool& threads, Body body) const {
  threads.parallel_for(slices_.size() - 1, 1, [&](std::size_t slice, std::size_t) {
    body(slice, slices_[slice], slices_[slice + 1]);
  });
}

void SymmetricMatrix::find_squares(ThreadPool& threads,
                                   std::span<const kernels::BlockVector> vectors,
                                   std::span<double> squares) const {
  find_squares_and_products(threads, vectors, squares, {}, {});
}

void SymmetricMatrix::multiply(ThreadPool& threads, std::span<const double> factors,
                               std::span<double> products) const {
  find_squares_and_products(threads, {}, {}, factors, products);
}

void SymmetricMatrix::find_squares_and_products(ThreadPool& threads,
                                                std::span<const kernels::BlockVector> vectors,
                                                std::span<double> squares,
                                                std::span<const double> factors,
                                                std::span<double> products) const {
  const std::size_t length = padded_size();
  check(factors.size() % length == 0 && factors.size() == products.size(),
        "the vectors fit the matrix");
  const std::size_t count = vectors.size();
  AlignedDoubles lanes((slices_.size() - 1) * count * kBlock);
  AlignedDoubles sums((slices_.size() - 1) * factors.size());
  for_slices(threads, [&](std::size_t slice, std::size_t begin, std::size_t end) {
    for (std::size_t q = begin; q < end; ++q) {
      kernels::add_half_squares(block_row(q), q, vectors, lanes.data() + slice * count * kBlock);
      for (std::size_t start = 0; start < factors.size(); start += length) {
        kernels::add_product(block_row(q), q, factors.data() + start,
                             sums.data() + slice * factors.size() + start);
      }
    }
  });
  for (std::size_t i = 0; i < count; ++i) {
    squares[i] = 0.0;
    for (std::size_t slice = 0; slice + 1 < slices_.size(); ++slice) {
      squares[i] += 2.0 * kernels::sum_lanes(lanes.data() + (slice * count + i) * kBlock);
    }
  }
  std::ranges::fill(products, 0.0);
  for (std::size_t slice = 0; slice + 1 < slices_.size(); ++slice) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      products[i] += sums[slice * products.size() + i];
    }
  }
}

void SymmetricMatrix::add_outer_products(ThreadPool& threads, std::span<const double> vectors,
                                         Sign sign) {
  check(vectors.size() % padded_size() == 0, "the vectors fit the matrix");
  const std::size_t count = vectors.size() / padded_size();
  AlignedDoubles panel(vectors.size());
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t c = 0; c < blocks_; ++c) {
      std::copy_n(vectors.data() + k * padded_size() + c * kBlock, kBlock,
                  panel.data() + (c * count + k) * kBlock);
    }
  }
  for_slices(threads, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t q = begin; q < end; ++q) {
      kernels::add_outer_products(block_row(q), q, panel.data(), count, sign == Sign::kMinus);
    }
  });
}

void SymmetricMatrix::add(const SymmetricMatrix& other, Sign sign) {
  check(other.size_ == size_, "the matrices have the same size");
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i] += sign == Sign::kPlus ? other.values_[i] : -other.values_[i];
  }
}

void SymmetricMatrix::add_to_diagonal(double value) {
  for (std::size_t i = 0; i < size_; ++i) {
    at(i, i) += value;
  }
}

Eigen::MatrixXd SymmetricMatrix::dense() const {
  const auto rows = static_cast<Eigen::Index>(size_);
  Eigen::MatrixXd dense(rows, rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      const auto row = static_cast<std::size_t>(i);
      const auto column = static_cast<std::size_t>(j);
      dense(i, j) = block_row(
          row / kBlock)[column / kBlock * kBlockSize + row % kBlock * kBlock + column % kBlock];
      dense(j, i) = dense(i, j);
    }
  }
  return dense;
}

void SymmetricMatrix::assign(const Eigen::MatrixXd& dense) {
  check(static_cast<std::size_t>(dense.rows()) == size_ && dense.rows() == dense.cols(),
        "the matrices have the same size");
  for (Eigen::Index i = 0; i < dense.rows(); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      const auto row = static_cast<std::size_t>(i);
      const auto column = static_cast<std::size_t>(j);
      at(row, column) = dense(i, j);
      if (row / kBlock == column / kBlock) {  // blocks on the diagonal are kept whole
        at(column, row) = dense(i, j);
      }
    }
  }
}

void SymmetricMatrix::load(StateReader& reader) {
  const std::vector<double> values = reader.read_all<double>(values_.size());
  if (values.size() != values_.size() ||
      std::ranges::any_of(values, [](double value) { return !std::isfinite(value); })) {
    reader.fail("a symmetric matrix has another size, or numbers that are not finite");
  }
  std::ranges::copy(values, values_.begin());
}

}  // namespace mcnb
