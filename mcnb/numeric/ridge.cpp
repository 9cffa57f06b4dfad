#include "mcnb/numeric/ridge.h"

#include <fmt/core.h>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kMaxDimension = 16'384;
constexpr double kDriftAllowed = 1e-10;
constexpr double kSmallestConditionForCholesky = 1e-13;

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

Eigen::VectorXd RidgeState::to_vector(std::span<const float> x) const {
  if (x.size() != dimension()) {
    throw Error(ErrorKind::kInput,
                fmt::format("features: expected {}, got {}", dimension(), x.size()));
  }
  const Eigen::VectorXd vector =
      Eigen::Map<const Eigen::VectorXf>(x.data(), static_cast<Eigen::Index>(x.size()))
          .cast<double>();
  if (!vector.allFinite()) {
    throw Error(ErrorKind::kInput, "features: expected finite numbers");
  }
  return vector;
}

void RidgeState::add(std::span<const float> x, double reward) {
  const Eigen::VectorXd v = to_vector(x);
  if (!std::isfinite(reward)) {
    throw Error(ErrorKind::kInput, fmt::format("reward: expected a finite number, got {}", reward));
  }
  const Eigen::VectorXd u = inverse_ * v;
  inverse_.noalias() -= (u / (1.0 + v.dot(u))) * u.transpose();
  m_.noalias() += v * v.transpose();
  b_ += reward * v;
  ++samples_;
  // M M^-1 x should be x: a check of O(d^2), like the update itself, in the direction in which
  // the inverse has just changed.
  const double drift = (m_ * (inverse_ * v) - v).norm();
  // At most once in d samples, so that repairs never cost more than the updates; where M is so
  // badly conditioned that a fresh inverse is no better, they would come every time.
  ++since_repair_;
  if (!(drift <= kDriftAllowed * v.norm()) && since_repair_ >= dimension()) {
    invert();
    ++repairs_;
    since_repair_ = 0;
  }
  w_.noalias() = inverse_ * b_;
}

void RidgeState::merge(const RidgeState& other) {
  check(other.dimension() == dimension() && other.lambda_ == lambda_,
        "merged ridge states have the same dimension and lambda");
  m_ += other.m_;
  m_.diagonal().array() -= lambda_;
  b_ += other.b_;
  samples_ += other.samples_;
  invert();
  since_repair_ = 0;
  w_.noalias() = inverse_ * b_;
}

void RidgeState::invert() {
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

double RidgeState::estimate(std::span<const float> x) const { return to_vector(x).dot(w_); }

double RidgeState::uncertainty(std::span<const float> x) const {
  const Eigen::VectorXd v = to_vector(x);
  return std::sqrt(std::max(0.0, v.dot(inverse_ * v)));
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
