#include "mcnb/numeric/ridge.h"

#include <fmt/core.h>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/matrix_kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kMaxDimension = 16'384;
constexpr double kDriftAllowed = 1e-10;
constexpr double kSmallestConditionForCholesky = 1e-13;

// Room for three vectors, on the stack where they are short: a round asks for many predictions, and
// the heap would cost more than the arithmetic.
class WorkVectors {
 public:
  using Vector = Eigen::Map<Eigen::VectorXd, Eigen::Aligned16>;

  explicit WorkVectors(Eigen::Index length) : length_(length) {
    if (length > kShort) {
      long_.resize(3 * padded());
    }
  }
  Vector vector(Eigen::Index place) {
    double* begin = length_ > kShort ? long_.data() : short_.data();
    return {begin + place * padded(), length_};
  }

 private:
  static constexpr Eigen::Index kShort = 64;
  Eigen::Index padded() const { return (length_ + 1) / 2 * 2; }  // keeps all three aligned

  Eigen::Index length_;
  alignas(16) std::array<double, 3 * kShort> short_;  // left as it is until written
  Eigen::VectorXd long_;
};

void copy(std::span<const float> x, WorkVectors::Vector& to) {
  to = Eigen::Map<const Eigen::VectorXf>(x.data(), to.size()).cast<double>();
}

// product = A v, A symmetric.
void multiply(const Eigen::MatrixXd& a, const double* v, double* product) {
  const auto n = static_cast<std::size_t>(a.rows());
  if (n <= kernels::kSmallMatrix) {
    kernels::multiply_small(a.data(), n, v, product);
  } else {
    Eigen::Map<Eigen::VectorXd>(product, a.rows()).noalias() =
        a * Eigen::Map<const Eigen::VectorXd>(v, a.rows());
  }
}

// A += factor u u^T.
void add_outer(Eigen::MatrixXd& a, const WorkVectors::Vector& u, double factor) {
  const auto n = static_cast<std::size_t>(a.rows());
  if (n <= kernels::kSmallMatrix) {
    kernels::add_outer_small(a.data(), n, u.data(), factor);
  } else {
    a.noalias() += (factor * u) * u.transpose();
  }
}

}  // namespace

RidgeState::RidgeState(std::size_t dimension, double lambda) : lambda_(lambda) {
  if (dimension < 1 || dimension > kMaxDimension) {
    throw Error(ErrorKind::kUsage,
                fmt::format("ridge dimension: expected 1 to {}, got {}", kMaxDimension, dimension));
  }
  if (!(lambda > 0.0) || !std::isfinite(lambda)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("lambda: expected a positive number, got {}", lambda));
  }
  const auto d = static_cast<Eigen::Index>(dimension);
  m_ = lambda * Eigen::MatrixXd::Identity(d, d);
  inverse_ = (1.0 / lambda) * Eigen::MatrixXd::Identity(d, d);
  b_ = Eigen::VectorXd::Zero(d);
  w_ = Eigen::VectorXd::Zero(d);
  since_repair_ = dimension;
}

void RidgeState::check_features(std::span<const float> x) const {
  if (x.size() != dimension()) {
    throw Error(ErrorKind::kInput,
                fmt::format("features: expected {}, got {}", dimension(), x.size()));
  }
  for (const float value : x) {
    if (!std::isfinite(value)) {
      throw Error(ErrorKind::kInput, "features: expected finite numbers");
    }
  }
}

void RidgeState::add(std::span<const float> x, double reward) {
  check_features(x);
  if (!std::isfinite(reward)) {
    throw Error(ErrorKind::kInput, fmt::format("reward: expected a finite number, got {}", reward));
  }
  WorkVectors work(b_.size());
  WorkVectors::Vector v = work.vector(0);
  WorkVectors::Vector u = work.vector(1);
  copy(x, v);
  multiply(inverse_, v.data(), u.data());
  add_outer(inverse_, u, -1.0 / (1.0 + v.dot(u)));
  add_outer(m_, v, 1.0);
  b_ += reward * v;
  ++samples_;
  // M M^-1 x should be x: a check of O(d^2), like the update itself, in the direction in which
  // the inverse has just changed.
  WorkVectors::Vector back = work.vector(2);
  multiply(inverse_, v.data(), u.data());
  multiply(m_, u.data(), back.data());
  const double drift = (back - v).norm();
  // At most once in d samples, so that repairs never cost more than the updates; where M is so
  // badly conditioned that a fresh inverse is no better, they would come every time.
  ++since_repair_;
  if (!(drift <= kDriftAllowed * v.norm()) && since_repair_ >= dimension()) {
    find_inverse();
    ++repairs_;
    since_repair_ = 0;
  }
  multiply(inverse_, b_.data(), w_.data());
}

void RidgeState::add_sums(const Eigen::MatrixXd& squares, const Eigen::VectorXd& sum,
                          std::uint64_t samples) {
  check(squares.rows() == m_.rows() && squares.cols() == m_.cols() && sum.size() == b_.size(),
        "sums have the dimension of the ridge state");
  m_ += squares;
  b_ += sum;
  samples_ += samples;
  invert();
}

void RidgeState::check_kind(const RidgeState& other) const {
  check(other.dimension() == dimension() && other.lambda_ == lambda_,
        "merged ridge states have the same dimension and lambda");
}

void RidgeState::merge(const RidgeState& other) {
  const RidgeState* const one = &other;
  merge(std::span(&one, 1));
}

void RidgeState::merge(std::span<const RidgeState* const> others) {
  for (const RidgeState* other : others) {
    check_kind(*other);
    m_ += other->m_;
    m_.diagonal().array() -= lambda_;
    b_ += other->b_;
    samples_ += other->samples_;
  }
  invert();
}

void RidgeState::remove(std::span<const RidgeState* const> others) {
  for (const RidgeState* other : others) {
    check_kind(*other);
    check(other->samples_ <= samples_, "a ridge state gives up no more samples than it has");
    m_ -= other->m_;
    m_.diagonal().array() += lambda_;
    b_ -= other->b_;
    samples_ -= other->samples_;
  }
  invert();
}

// The inverse and the weights, from M and b.
void RidgeState::invert() {
  find_inverse();
  since_repair_ = 0;
  w_.noalias() = inverse_ * b_;
}

void RidgeState::find_inverse() {
  const Eigen::Index d = m_.rows();
  const Eigen::LLT<Eigen::MatrixXd> cholesky(m_);
  if (cholesky.info() == Eigen::Success && cholesky.rcond() > kSmallestConditionForCholesky) {
    inverse_ = cholesky.solve(Eigen::MatrixXd::Identity(d, d));
    return;
  }
  // Samples so large that lambda is lost in the rounding of M: an eigenvalue that is no more than
  // rounding can only be lambda, since M - lambda I has no negative ones.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(m_);
  const Eigen::VectorXd& values = eigen.eigenvalues();
  const double rounding =
      static_cast<double>(d) * std::numeric_limits<double>::epsilon() * values.maxCoeff();
  const Eigen::VectorXd inverses =
      (values.array() > rounding).select(values.array().max(lambda_), lambda_).inverse();
  inverse_ = eigen.eigenvectors() * inverses.asDiagonal() * eigen.eigenvectors().transpose();
}

RidgePrediction RidgeState::predict(std::span<const float> x) const {
  check_features(x);
  WorkVectors work(b_.size());
  WorkVectors::Vector v = work.vector(0);
  WorkVectors::Vector u = work.vector(1);
  copy(x, v);
  multiply(inverse_, v.data(), u.data());
  return {v.dot(w_), std::sqrt(std::max(0.0, v.dot(u)))};
}

std::size_t RidgeState::memory_bytes() const {
  return sizeof *this + 2 * (dimension() + 1) * dimension() * sizeof(double);
}

void RidgeState::save(StateWriter& writer) const {
  const auto write = [&](const auto& values) {
    writer.write_bytes(values.data(), static_cast<std::size_t>(values.size()) * sizeof(double));
  };
  writer.write(static_cast<std::uint64_t>(dimension()));
  writer.write(lambda_);
  writer.write(samples_);
  writer.write(repairs_);
  writer.write(since_repair_);
  write(m_);
  write(inverse_);
  write(b_);
  write(w_);
}

RidgeState RidgeState::load(StateReader& reader) {
  const auto dimension = reader.read<std::uint64_t>();
  const auto lambda = reader.read<double>();
  if (dimension < 1 || dimension > kMaxDimension || !(lambda > 0.0) || !std::isfinite(lambda)) {
    reader.fail("a ridge state has an impossible size");
  }
  RidgeState state(static_cast<std::size_t>(dimension), lambda);
  const auto read = [&](auto& values) {
    reader.read_bytes(values.data(), static_cast<std::size_t>(values.size()) * sizeof(double));
    if (!values.allFinite()) {
      reader.fail("a ridge state holds a number that is not finite");
    }
  };
  state.samples_ = reader.read<std::uint64_t>();
  state.repairs_ = reader.read<std::uint64_t>();
  state.since_repair_ = reader.read<std::uint64_t>();
  read(state.m_);
  read(state.inverse_);
  read(state.b_);
  read(state.w_);
  return state;
}

}  // namespace mcnb
