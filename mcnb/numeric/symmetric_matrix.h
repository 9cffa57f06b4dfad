#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/matrix_kernels.h"

namespace mcnb {

// Allocates memory that begins at a cache line.
template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  CacheLineAllocator() = default;
  template <class Other>
  explicit CacheLineAllocator(const CacheLineAllocator<Other>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kAlignment); }
  bool operator==(const CacheLineAllocator&) const = default;
};
using AlignedDoubles = std::vector<double, CacheLineAllocator<double>>;

// A symmetric matrix in double precision. The lower half is stored, in blocks of 8 x 8 numbers in
// the order in which they are used. Results depend neither on the number of threads nor on which
// vectors one call gets together.
class SymmetricMatrix {
 public:
  // A multiple of the identity.
  SymmetricMatrix(std::size_t size, double diagonal);

  std::size_t size() const { return size_; }
  // The size rounded up to whole blocks.
  std::size_t padded_size() const { return blocks_ * kernels::kBlock; }

  // squares[i] = v_i^T A v_i. The matrix is read once for all vectors. A vector costs time in
  // proportion to the square of the length of its runs.
  void find_squares(ThreadPool& threads, std::span<const kernels::BlockVector> vectors,
                    std::span<double> squares) const;

  // find_squares and multiply together, while the matrix is read once for both.
  void find_squares_and_products(ThreadPool& threads, std::span<const kernels::BlockVector> vectors,
                                 std::span<double> squares, std::span<const double> factors,
                                 std::span<double> products) const;

  // The products A v of vectors that are stored one after the other, each padded_size() long with
  // zeros in the padding. The matrix is read once for all of them.
  void multiply(ThreadPool& threads, std::span<const double> factors,
                std::span<double> products) const;

  // Adds the sum of v v^T to A or subtracts it, in one pass. Vectors are stored one after the
  // other, each padded_size() long with zeros in the padding.
  enum class Sign { kPlus, kMinus };
  void add_outer_products(ThreadPool& threads, std::span<const double> vectors, Sign sign);

  // Adds a matrix of the same size or subtracts it.
  void add(const SymmetricMatrix& other, Sign sign);
  // A += value I
  void add_to_diagonal(double value);

  Eigen::MatrixXd dense() const;
  // Copies the lower half of a matrix of the same size.
  void assign(const Eigen::MatrixXd& dense);

  std::size_t memory_bytes() const { return values_.capacity() * sizeof values_[0]; }
  void save(StateWriter& writer) const { writer.write_all(std::span<const double>(values_)); }
  // Requires a matrix of the same size. Refuses numbers that are not finite.
  void load(StateReader& reader);

 private:
  const double* block_row(std::size_t q) const {
    return values_.data() + kernels::block_row_start(q);
  }
  double* block_row(std::size_t q) { return values_.data() + kernels::block_row_start(q); }
  double& at(std::size_t i, std::size_t j);
  // Calls body(slice, first block row, last + 1) for every slice of about the same work.
  template <class Body>
  void for_slices(ThreadPool& threads, Body body) const;

  std::size_t size_;
  std::size_t blocks_;
  std::vector<std::size_t> slices_;  // block rows at which they begin, and the end
  AlignedDoubles values_;
};

}  // namespace mcnb
