#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mcnb/numeric/symmetric_matrix.h"

namespace mcnb {

// When and how an inverse that has drifted is computed again.
struct InverseGuard {
  double drift_allowed = 1e-8;  // |Z Z^-1 v - v| / |v|
  // What to do if Z is so badly conditioned that it has no Cholesky factor in double precision.
  // True: compute the inverse from eigenvalues (ridge_inverse.h), which is slow for thousands of
  // rows. False: keep the inverse as the updates left it.
  bool always_inverts = false;
};

// The inverse of a growing Z = lambda I + sum v v^T, for squares v^T Z^-1 v.
//
// The inverse is kept up to date by rank-one updates (Sherman and Morrison). They wait until there
// are 16 and are then applied in one pass over the matrix, since each pass costs a read of the
// whole matrix; squares take waiting updates into account. For the same reason the solves Z^-1 v of
// added vectors are done together, in the pass that the next squares need anyway, with the same
// bits as one by one. Z itself is kept too, for a guard against drift: after every 16 updates it
// measures how far Z Z^-1 v is from v, the last vector added, and computes the inverse again if
// that is too far (at most once in as many additions as the matrix has rows).
class TrackedInverse {
 public:
  // Requires lambda > 0.
  TrackedInverse(std::size_t size, double lambda, const InverseGuard& guard = {});

  std::size_t size() const { return inverse_.size(); }
  // The length of the vectors below, which are zero from size() on.
  std::size_t padded_size() const { return inverse_.padded_size(); }
  // How often the guard computed the inverse again.
  std::uint64_t repair_count() const { return repairs_; }

  // Z += v v^T.
  void add(ThreadPool& threads, const kernels::BlockVector& v);

  // Solves for the added vectors that are not solved for yet.
  void settle(ThreadPool& threads);

  // squares[i] = v_i^T Z^-1 v_i, never below zero. Calling it or not changes no other result.
  void find_squares(ThreadPool& threads, std::span<const kernels::BlockVector> vectors,
                    std::span<double> squares);

  // The const functions below require that all added vectors are solved for (settle). They only
  // read, and may be called from several threads at once.

  // Equal to find_squares, bit for bit.
  void find_settled_squares(ThreadPool& threads, std::span<const kernels::BlockVector> vectors,
                            std::span<double> squares) const;
  // product = Z^-1 v
  void solve(ThreadPool& threads, std::span<const double> v, std::span<double> product) const;
  // sum += factor Z^-1 v for the vector v that was added last, without a pass over the matrix.
  // Requires that no sums were added since.
  void add_last_solution(double factor, std::span<double> sum) const;
  Eigen::MatrixXd dense_inverse() const;

  // Adds the sum of Z' - lambda I over others of the same size and lambda to Z, or subtracts it;
  // the second form adds a symmetric matrix without negative eigenvalues. Computes the inverse
  // once.
  void add_sums(ThreadPool& threads, std::span<const TrackedInverse* const> others,
                SymmetricMatrix::Sign sign);
  void add_sums(ThreadPool& threads, const Eigen::MatrixXd& squares);
  Eigen::MatrixXd dense_matrix() const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Requires an object of the same size and lambda.
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
  // The vectors that are not solved for.
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
  SymmetricMatrix inverse_;   // without the waiting updates
  SymmetricMatrix matrix_;    // Z without the waiting vectors
  std::size_t waiting_ = 0;   // vectors that wait
  std::size_t solved_ = 0;    // how many of them, from the first, are solved for
  AlignedDoubles vectors_;    // the waiting v
  AlignedDoubles decreases_;  // u for each waiting v: Z^-1 = inverse_ - sum u u^T
  double last_scale_ = 0.0;   // Z^-1 v = last_scale_ u for the last v that is solved for
  std::uint64_t repairs_ = 0;
  std::uint64_t since_repair_;  // counts additions
};

}  // namespace mcnb
