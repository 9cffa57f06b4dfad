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
#include "mcnb/numeric/ridge_kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kMaxDimension = 16'384;
constexpr double kDriftAllowed = 1e-10;
constexpr double kSmallestConditionForCholesky = 1e-13;

Eigen::VectorXd as_vector(std::span<const float> x) {
  return Eigen::Map<const Eigen::VectorXf>(x.data(), static_cast<Eigen::Index>(x.size()))
      .cast<double>();
}

}  // namespace

double uncertainty_limit(std::span<const float> x, double lambda) {
  double squares = 0.0;
  for (const float value : x) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares / lambda);
}

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
  const Drift drift = is_small() ? add_small(x, reward) : add_large(as_vector(x), reward);
  ++samples_;
  // At most once in d samples, so that repairs never cost more than the updates; where M is so
  // badly conditioned that a fresh inverse is no better, they would come every time.
  ++since_repair_;
  if (!(drift.square <= kDriftAllowed * kDriftAllowed * drift.of) && since_repair_ >= dimension()) {
    find_inverse();
    find_weights();
    ++repairs_;
    since_repair_ = 0;
  }
}

RidgeState::Drift RidgeState::add_small(std::span<const float> x, double reward) {
  std::array<double, kernels::kSmallRidge> v;  // left as it is behind x
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    v[i] = static_cast<double>(x[i]);
    squares += v[i] * v[i];
  }
  return {kernels::add_sample(small(), v.data(), reward), squares};
}

RidgeState::Drift RidgeState::add_large(const Eigen::VectorXd& x, double reward) {
  Eigen::VectorXd moved = inverse_ * x;
  inverse_.noalias() -= (1.0 / (1.0 + x.dot(moved)) * moved) * moved.transpose();
  m_.noalias() += x * x.transpose();
  b_ += reward * x;
  w_.noalias() = inverse_ * b_;
  // M M^-1 x should be x: a check of O(d^2), like the update itself, in the direction in which
  // the inverse has just changed.
  moved.noalias() = inverse_ * x;
  return {(m_ * moved - x).squaredNorm(), x.squaredNorm()};
}

void RidgeState::find_weights() {
  if (is_small()) {
    kernels::find_weights(small());
  } else {
    w_.noalias() = inverse_ * b_;
  }
}

bool RidgeState::is_small() const { return dimension() <= kernels::kSmallRidge; }

kernels::SmallRidge RidgeState::small() {
  return {dimension(), m_.data(), inverse_.data(), b_.data(), w_.data()};
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
  find_weights();
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

double RidgeState::estimate(std::span<const float> x) const {
  if (is_small()) {
    return predict(x).estimate;
  }
  check_features(x);
  return as_vector(x).dot(w_);
}

RidgePrediction RidgeState::predict(std::span<const float> x) const {
  check_features(x);
  const float* const point = x.data();
  RidgePrediction prediction;
  predict({&point, 1}, {&prediction, 1});
  return prediction;
}

void RidgeState::predict(std::span<const float* const> points,
                         std::span<RidgePrediction> predictions) const {
  check(points.size() == predictions.size(), "there is a prediction for every point");
  if (!is_small()) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Eigen::VectorXd x = as_vector({points[i], dimension()});
      const double square = std::max(0.0, x.dot(inverse_ * x));
      predictions[i] = {x.dot(w_), std::min(std::sqrt(square),
                                            uncertainty_limit({points[i], dimension()}, lambda_))};
    }
    return;
  }
  std::array<double, kernels::kPointsTogether> estimates;
  std::array<double, kernels::kPointsTogether> squares;
  for (std::size_t begin = 0; begin < points.size(); begin += kernels::kPointsTogether) {
    const std::size_t count = std::min(kernels::kPointsTogether, points.size() - begin);
    kernels::predict_points(dimension(), inverse_.data(), w_.data(), points.subspan(begin, count),
                            estimates.data(), squares.data());
    for (std::size_t i = 0; i < count; ++i) {
      predictions[begin + i] = {estimates[i], std::sqrt(std::max(0.0, squares[i]))};
    }
  }
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
