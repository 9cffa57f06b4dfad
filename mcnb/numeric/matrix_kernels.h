#pragma once

#include <cstddef>
#include <span>

// The inner loops of confidence matrices, in double precision, compiled for every instruction set
// like those of kernels.h. Sums run in 8 fixed lanes, in index order within a lane, and a fixed
// tree over the lanes, so AVX2 and AVX-512 agree bit for bit. Arguments are not checked.
//
// Symmetric matrices and vectors are divided into blocks of 8. The lower half of a matrix is
// stored: block row q is the blocks (q, 0) .. (q, q), each 8 x 8 numbers, row by row. It begins at
// block q (q + 1) / 2.
namespace mcnb::kernels {

inline constexpr std::size_t kBlock = 8;
inline constexpr std::size_t kBlockSize = kBlock * kBlock;

inline constexpr std::size_t block_row_start(std::size_t q) { return q * (q + 1) / 2 * kBlockSize; }

// Consecutive blocks of a vector.
struct BlockRun {
  std::size_t first;
  std::size_t end;  // the last + 1
};

// A vector that is zero outside a few runs of blocks. Borrows values and runs.
struct BlockVector {
  const double* values;            // the whole vector
  std::span<const BlockRun> runs;  // ascending, disjoint

  bool holds(std::size_t block) const {
    for (const BlockRun& run : runs) {
      if (block >= run.first && block < run.end) {
        return true;
      }
    }
    return false;
  }
};

// Adds to lanes[8 i .. 8 i + 8) what block row q contributes to v_i^T A v_i / 2: the blocks left of
// the diagonal, which also count for their mirror images, and half of the diagonal block.
void add_half_squares(const double* block_row, std::size_t q, std::span<const BlockVector> vectors,
                      double* lanes);

// Adds to `product` what block row q contributes to A v, where v has no runs.
void add_product(const double* block_row, std::size_t q, const double* v, double* product);

// Adds the sum over k of v_k v_k^T to block row q, or subtracts it. `panel` interleaves the
// vectors: block c of v_k at (c * count + k) * 8.
void add_outer_products(double* block_row, std::size_t q, const double* panel, std::size_t count,
                        bool subtract);

// dots[k] = v . (the vector at vectors + k * stride), over the runs of v.
void find_dots(const BlockVector& v, const double* vectors, std::size_t stride, std::size_t count,
               double* dots);

// The sum over i, j of rows[i] * columns[j] * weights[i * columns.size() + j].
double weigh(std::span<const double> rows, std::span<const double> columns, const double* weights);

// weights[i * columns.size() + j] = 1 / (1 / it + rows[i] * columns[j])
void shrink(std::span<const double> rows, std::span<const double> columns, double* weights);

inline double sum_lanes(const double* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace mcnb::kernels
