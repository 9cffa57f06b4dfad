#include "mcnb/numeric/tracked_inverse.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/numeric/ridge_inverse.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostWaiting = 16;

double norm(std::span<const double> v) {
  double squares = 0.0;
  for (const double value : v) {
    squares += value * value;
  }
  return std::sqrt(squares);
}

}  // namespace

TrackedInverse::TrackedInverse(std::size_t size, double lambda, const InverseGuard& guard)
    : lambda_(lambda),
      guard_(guard),
      inverse_(size, 1.0 / lambda),
      matrix_(size, lambda),
      since_repair_(size) {
  check(lambda > 0.0, "lambda is positive");
  vectors_.resize(kMostWaiting * padded_size());
  decreases_.resize(kMostWaiting * padded_size());
}

void TrackedInverse::add(ThreadPool& threads, const kernels::BlockVector& v) {
  if (waiting_ == kMostWaiting) {
    settle(threads);
  }
  if (waiting_ == kMostWaiting) {
    apply_waiting(threads);
    if (may_repair() && has_drifted(threads, vector(kMostWaiting - 1))) {
      repair();
    }
  }
  std::copy_n(v.values, padded_size(), vector(waiting_).data());
  ++waiting_;
}

void TrackedInverse::settle(ThreadPool& threads) {
  if (solved_ < waiting_) {
    inverse_.multiply(threads, unsolved(), room_for_products());
    settle_with_products(threads);
  }
}

// Solves for all vectors, one after the other. Requires the products of `inverse_` with them in
// their decreases. Returns true if `inverse_` was computed again.
bool TrackedInverse::settle_with_products(ThreadPool& threads) {
  while (solved_ < waiting_) {
    if (solve_next()) {
      continue;
    }
    // The inverse has drifted. The vectors so far go into it, it is computed again, and the
    // remaining ones are solved for with the new inverse.
    const std::size_t left = waiting_ - solved_;
    const AlignedDoubles vectors(unsolved().begin(), unsolved().end());
    waiting_ = solved_;
    apply_waiting(threads);
    repair();
    std::ranges::copy(vectors, vectors_.begin());
    waiting_ = left;
    settle(threads);
    return true;
  }
  return false;
}

// Solves for the first vector that is not solved for. Returns false if the inverse has to be
// computed again first; then only the product of this vector has been overwritten.
bool TrackedInverse::solve_next() {
  const std::span<double> product = decrease(solved_);
  const kernels::BlockRun whole{0, padded_size() / kernels::kBlock};
  const kernels::BlockVector v{vector(solved_).data(), {&whole, 1}};
  double dots[kMostWaiting];
  kernels::find_dots(v, decreases_.data(), padded_size(), solved_, dots);
  for (std::size_t k = 0; k < solved_; ++k) {
    const std::span<const double> known = decrease(k);
    for (std::size_t i = 0; i < product.size(); ++i) {
      product[i] -= dots[k] * known[i];
    }
  }
  double square = 0.0;
  kernels::find_dots(v, product.data(), padded_size(), 1, &square);
  if (!(square >= 0.0) && may_repair()) {
    return false;
  }
  // A square below zero can only come from drift, and an update with it would increase the drift.
  const double scale = square >= 0.0 ? 1.0 / std::sqrt(1.0 + square) : 0.0;
  for (double& value : product) {
    value = scale > 0.0 ? value * scale : 0.0;
  }
  last_scale_ = scale;
  ++solved_;
  ++since_repair_;
  return true;
}

void TrackedInverse::apply_waiting(ThreadPool& threads) {
  const std::size_t count = waiting_ * padded_size();
  inverse_.add_outer_products(threads, std::span(decreases_).first(count),
                              SymmetricMatrix::Sign::kMinus);
  take_waiting_into_matrix(threads);
}

void TrackedInverse::take_waiting_into_matrix(ThreadPool& threads) {
  matrix_.add_outer_products(threads, waiting_vectors(), SymmetricMatrix::Sign::kPlus);
  waiting_ = 0;
  solved_ = 0;
}

bool TrackedInverse::has_drifted(ThreadPool& threads, std::span<const double> v) const {
  AlignedDoubles solved(padded_size());
  AlignedDoubles back(padded_size());
  inverse_.multiply(threads, v, solved);
  matrix_.multiply(threads, solved, back);
  for (std::size_t i = 0; i < back.size(); ++i) {
    back[i] -= v[i];
  }
  return !(norm(back) <= guard_.drift_allowed * norm(v));
}

void TrackedInverse::repair() {
  since_repair_ = 0;
  if (guard_.always_inverts) {
    invert();
    ++repairs_;
    return;
  }
  Eigen::MatrixXd root = matrix_.dense();
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> cholesky(root);  // in place: it may be large
  if (cholesky.info() == Eigen::Success) {
    Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(root.rows(), root.cols());
    cholesky.solveInPlace(inverse);
    inverse_.assign(inverse);
    ++repairs_;
  }
}

void TrackedInverse::invert() {
  inverse_.assign(find_ridge_inverse(matrix_.dense(), lambda_));
  since_repair_ = 0;
}

void TrackedInverse::find_squares(ThreadPool& threads,
                                  std::span<const kernels::BlockVector> vectors,
                                  std::span<double> squares) {
  const bool all_solved = solved_ == waiting_;
  if (!all_solved) {
    inverse_.find_squares_and_products(threads, vectors, squares, unsolved(), room_for_products());
  }
  if (all_solved || settle_with_products(threads)) {
    inverse_.find_squares(threads, vectors, squares);
  }
  subtract_waiting(vectors, squares);
}

void TrackedInverse::find_settled_squares(ThreadPool& threads,
                                          std::span<const kernels::BlockVector> vectors,
                                          std::span<double> squares) const {
  check(solved_ == waiting_, "all vectors are solved for");
  inverse_.find_squares(threads, vectors, squares);
  subtract_waiting(vectors, squares);
}

void TrackedInverse::subtract_waiting(std::span<const kernels::BlockVector> vectors,
                                      std::span<double> squares) const {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    double dots[kMostWaiting];
    kernels::find_dots(vectors[i], decreases_.data(), padded_size(), waiting_, dots);
    for (std::size_t k = 0; k < waiting_; ++k) {
      squares[i] -= dots[k] * dots[k];
    }
    squares[i] = std::max(squares[i], 0.0);
  }
}

void TrackedInverse::solve(ThreadPool& threads, std::span<const double> v,
                           std::span<double> product) const {
  check(solved_ == waiting_, "all vectors are solved for");
  inverse_.multiply(threads, v, product);
  const kernels::BlockRun whole{0, padded_size() / kernels::kBlock};
  double dots[kMostWaiting];
  kernels::find_dots({v.data(), {&whole, 1}}, decreases_.data(), padded_size(), waiting_, dots);
  for (std::size_t k = 0; k < waiting_; ++k) {
    for (std::size_t i = 0; i < product.size(); ++i) {
      product[i] -= dots[k] * decrease(k)[i];
    }
  }
}

void TrackedInverse::add_last_solution(double factor, std::span<double> sum) const {
  check(waiting_ > 0 && solved_ == waiting_ && sum.size() <= padded_size(),
        "the vector added last is solved for");
  const std::span<const double> last = decrease(waiting_ - 1);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += factor * last_scale_ * last[i];
  }
}

Eigen::MatrixXd TrackedInverse::dense_inverse() const {
  check(solved_ == waiting_, "all vectors are solved for");
  Eigen::MatrixXd dense = inverse_.dense();
  for (std::size_t k = 0; k < waiting_; ++k) {
    const Eigen::Map<const Eigen::VectorXd> u(decrease(k).data(), dense.rows());
    dense.noalias() -= u * u.transpose();
  }
  return dense;
}

Eigen::MatrixXd TrackedInverse::dense_matrix() const {
  Eigen::MatrixXd dense = matrix_.dense();
  for (std::size_t k = 0; k < waiting_; ++k) {
    const Eigen::Map<const Eigen::VectorXd> v(vectors_.data() + k * padded_size(), dense.rows());
    dense.noalias() += v * v.transpose();
  }
  return dense;
}

void TrackedInverse::add_sums(ThreadPool& threads, std::span<const TrackedInverse* const> others,
                              SymmetricMatrix::Sign sign) {
  take_waiting_into_matrix(threads);
  for (const TrackedInverse* other : others) {
    check(other->size() == size() && other->lambda_ == lambda_,
          "sums are of the same size and lambda");
    matrix_.add(other->matrix_, sign);
    matrix_.add_to_diagonal(sign == SymmetricMatrix::Sign::kPlus ? -lambda_ : lambda_);
    matrix_.add_outer_products(threads, other->waiting_vectors(), sign);
  }
  invert();
}

void TrackedInverse::add_sums(ThreadPool& threads, const Eigen::MatrixXd& squares) {
  take_waiting_into_matrix(threads);
  matrix_.assign(matrix_.dense() + squares);
  invert();
}

std::size_t TrackedInverse::memory_bytes() const {
  return inverse_.memory_bytes() + matrix_.memory_bytes() +
         (vectors_.capacity() + decreases_.capacity()) * sizeof(double);
}

// All vectors are written as not solved for. No result depends on it; nor do the bytes, unless
// solving computed the inverse again.
void TrackedInverse::save(StateWriter& writer) const {
  inverse_.save(writer);
  matrix_.save(writer);
  writer.write(static_cast<std::uint64_t>(waiting_));
  writer.write_all(waiting_vectors());
  writer.write(repairs_);
  writer.write(since_repair_ - solved_);
}

void TrackedInverse::load(StateReader& reader) {
  inverse_.load(reader);
  matrix_.load(reader);
  const auto waiting = reader.read<std::uint64_t>();
  if (waiting > kMostWaiting) {
    reader.fail("more updates of a matrix wait than can");
  }
  waiting_ = static_cast<std::size_t>(waiting);
  solved_ = 0;
  const std::size_t count = waiting_ * padded_size();
  const std::vector<double> values = reader.read_all<double>(count);
  if (values.size() != count ||
      !std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) {
    reader.fail("the updates of a matrix do not fit it");
  }
  std::ranges::copy(values, vectors_.begin());
  repairs_ = reader.read<std::uint64_t>();
  since_repair_ = reader.read<std::uint64_t>();
}

}  // namespace mcnb
