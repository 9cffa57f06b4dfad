#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mcnb/numeric/symmetric_matrix.h"

namespace mcnb {

// The inverse of Z = lambda I + sum v v^T, for squares v^T Z^-1 v, while Z grows.
//
// It follows by rank-one updates (Sherman and Morrison), which wait until there are 16 of them and
// then go into the matrix in one pass: alone, each would be as slow as memory. Squares count those
// that wait. For the same reason vectors that were added are solved for together, in the pass that
// the next squares need anyway, with the bits that a pass for each would give. Z is kept beside its
// inverse, for a guard against drift: after every 16 it looks how far Z Z^-1 v is from v, the
// vector added last, and computes the inverse anew where that is more than eight digits are good
// for, at most once in as many additions as the matrix has rows.
class TrackedInverse {
 public:
  // Requires lambda > 0.
  TrackedInverse(std::size_t size, double lambda);

  std::size_t size() const { return inverse_.size(); }
  // What the vectors below are as long as; zero behind size().
  std::size_t padded_size() const { return inverse_.padded_size(); }
  // How often the guard computed the inverse anew.
  std::uint64_t repair_count() const { return repairs_; }

  // Z += v v^T.
  void add(ThreadPool& threads, const kernels::BlockVector& v);

  // Solves for the vectors that were added, where that is still to be done.
  void settle(ThreadPool& threads);

  // squares[i] = v_i^T Z^-1 v_i, never below zero. Changes no answer, now or later.
  void find_squares(ThreadPool& threads, std::span<const kernels::BlockVector> vectors,
                    std::span<double> squares);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Into one of the same size and lambda.
  void load(StateReader& reader);

 private:
  std::span<double> vector(std::size_t k) {
    return std::span(vectors_).subspan(k * padded_size(), padded_size());
  }
  std::span<double> decrease(std::size_t k) {
    return std::span(decreases_).subspan(k * padded_size(), padded_size());
  }
  // Of the vectors that are not solved for.
  std::span<const double> unsolved() const {
    return std::span(vectors_).first(waiting_ * padded_size()).subspan(solved_ * padded_size());
  }
  std::span<double> room_for_products() {
    return std::span(decreases_).first(waiting_ * padded_size()).subspan(solved_ * padded_size());
  }
  bool settle_with_products(ThreadPool& threads);
  bool solve_next();
  void apply_waiting(ThreadPool& threads);
  bool has_drifted(ThreadPool& threads, std::span<const double> v) const;
  bool may_repair() const { return since_repair_ >= size(); }
  void repair();

  SymmetricMatrix inverse_;   // but for what waits
  SymmetricMatrix matrix_;    // Z, likewise
  std::size_t waiting_ = 0;   // additions
  std::size_t solved_ = 0;    // of these, the first ones
  AlignedDoubles vectors_;    // v, by number of those that wait
  AlignedDoubles decreases_;  // u, likewise: Z^-1 = inverse_ - sum u u^T
  std::uint64_t repairs_ = 0;
  std::uint64_t since_repair_;  // additions
};

}  // namespace mcnb
