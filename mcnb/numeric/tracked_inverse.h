#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mcnb/numeric/symmetric_matrix.h"

namespace mcnb {

// When an inverse that has drifted is computed anew, and how.
struct InverseGuard {
  double drift_allowed = 1e-8;  // |Z Z^-1 v - v| / |v|
  // Where Z is so badly conditioned that it has no root in double precision: whether the inverse is
  // made from its eigenvalues (ridge_inverse.h), slow for thousands of rows, or what the updates
  // have left is taken to be as good as anything.
  bool always_inverts = false;
};

// The inverse of Z = lambda I + sum v v^T, for squares v^T Z^-1 v, while Z grows.
//
// It follows by rank-one updates (Sherman and Morrison), which wait until there are 16 of them and
// then go into the matrix in one pass: alone, each would be as slow as memory. Squares count those
// that wait. For the same reason vectors that were added are solved for together, in the pass that
// the next squares need anyway, with the bits that a pass for each would give. Z is kept beside its
// inverse, for a guard against drift: after every 16 it looks how far Z Z^-1 v is from v, the
// vector added last, and computes the inverse anew where that is more than is allowed, at most once
// in as many additions as the matrix has rows.
class TrackedInverse {
 public:
  // Requires lambda > 0.
  TrackedInverse(std::size_t size, double lambda, const InverseGuard& guard = {});

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

  // Below, all vectors that were added must be solved for (settle): these only read, and may be
  // called from several threads at once.

  // The same squares, with the same bits.
  void find_settled_squares(ThreadPool& threads, std::span<const kernels::BlockVector> vectors,
                            std::span<double> squares) const;
  // product = Z^-1 v
  void solve(ThreadPool& threads, std::span<const double> v, std::span<double> product) const;
  // sum += factor Z^-1 v, without a pass over the matrix. Requires that v was added last, and no
  // sums since.
  void add_last_solution(double factor, std::span<double> sum) const;
  Eigen::MatrixXd dense_inverse() const;

  // Z += the sum of Z' - lambda I over others of the same size and lambda, or Z -= it; or another
  // symmetric matrix without negative eigenvalues. The inverse is computed anew, once.
  void add_sums(ThreadPool& threads, std::span<const TrackedInverse* const> others,
                SymmetricMatrix::Sign sign);
  void add_sums(ThreadPool& threads, const Eigen::MatrixXd& squares);
  Eigen::MatrixXd dense_matrix() const;

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
  std::span<const double> decrease(std::size_t k) const {
    return std::span(decreases_).subspan(k * padded_size(), padded_size());
  }
  std::span<const double> waiting_vectors() const {
    return std::span(vectors_).first(waiting_ * padded_size());
  }
  // Of the vectors that are not solved for.
  std::span<const double> unsolved() const {
    return waiting_vectors().subspan(solved_ * padded_size());
  }
  std::span<double> room_for_products() {
    return std::span(decreases_).first(waiting_ * padded_size()).subspan(solved_ * padded_size());
  }
  bool settle_with_products(ThreadPool& threads);
  bool solve_next();
  void subtract_waiting(std::span<const kernels::BlockVector> vectors,
                        std::span<double> squares) const;
  void apply_waiting(ThreadPool& threads);
  void take_waiting_into_matrix(ThreadPool& threads);
  bool has_drifted(ThreadPool& threads, std::span<const double> v) const;
  bool may_repair() const { return since_repair_ >= size(); }
  void repair();
  void invert();

  double lambda_;
  InverseGuard guard_;
  SymmetricMatrix inverse_;   // but for what waits
  SymmetricMatrix matrix_;    // Z, likewise
  std::size_t waiting_ = 0;   // additions
  std::size_t solved_ = 0;    // of these, the first ones
  AlignedDoubles vectors_;    // v, by number of those that wait
  AlignedDoubles decreases_;  // u, likewise: Z^-1 = inverse_ - sum u u^T
  double last_scale_ = 0.0;   // Z^-1 v = last_scale_ u, of the last one that is solved for
  std::uint64_t repairs_ = 0;
  std::uint64_t since_repair_;  // additions
};

}  // namespace mcnb
