#include "mcnb/numeric/ridge.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/ridge_inverse.h"
#include "mcnb/numeric/ridge_kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kMaxDimension = 16'384;
constexpr double kDriftAllowed = 1e-10;

// Ridge states compute on the calling thread. The pool is shared, since a pool of one has no state.
ThreadPool& calling_thread() {
  static ThreadPool alone(1);
  return alone;
}

// A point as large states read it. `room` is zero after x.
void copy_point(std::span<const float> x, double* room) {
  std::ranges::transform(x, room, [](float value) { return static_cast<double>(value); });
}

double dot(const double* x, const Eigen::VectorXd& w) {
  return Eigen::Map<const Eigen::VectorXd>(x, w.size()).dot(w);
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
  b_ = Eigen::VectorXd::Zero(d);
  w_ = Eigen::VectorXd::Zero(d);
  if (is_small()) {
    m_ = lambda * Eigen::MatrixXd::Identity(d, d);
    inverse_ = (1.0 / lambda) * Eigen::MatrixXd::Identity(d, d);
    since_repair_ = dimension;
  } else {
    large_.emplace_back(dimension, lambda,
                        InverseGuard{.drift_allowed = kDriftAllowed, .always_inverts = true});
    bound_.emplace_back(dimension, lambda);
  }
}

Eigen::MatrixXd RidgeState::matrix() const {
  return is_small() ? m_ : large_.front().dense_matrix();
}

Eigen::MatrixXd RidgeState::inverse() const {
  return is_small() ? inverse_ : large_.front().dense_inverse();
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
  if (is_small()) {
    add_small(x, reward);
  } else {
    add_large(x, reward);
  }
  ++samples_;
}

void RidgeState::add_small(std::span<const float> x, double reward) {
  std::array<double, kernels::kSmallRidge> v;  // not initialised after x
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    v[i] = static_cast<double>(x[i]);
    squares += v[i] * v[i];
  }
  const double drift = kernels::add_sample(small(), v.data(), reward);
  // Repairs at most once in d samples, so that repairs never cost more than the updates. Otherwise
  // a badly conditioned M, whose new inverse is no better, would be repaired every time.
  ++since_repair_;
  if (!(drift <= kDriftAllowed * kDriftAllowed * squares) && since_repair_ >= dimension()) {
    inverse_ = find_ridge_inverse(m_, lambda_);
    find_weights();
    ++repairs_;
    since_repair_ = 0;
  }
}

void RidgeState::add_large(std::span<const float> x, double reward) {
  TrackedInverse& tracked = large_.front();
  AlignedDoubles v(tracked.padded_size());
  copy_point(x, v.data());
  const kernels::BlockRun whole{0, v.size() / kernels::kBlock};
  const std::uint64_t repairs_before = tracked.repair_count();
  tracked.add(calling_thread(), {v.data(), {&whole, 1}});
  tracked.settle(calling_thread());
  const Eigen::Map<const Eigen::VectorXd> as_vector(v.data(), b_.size());
  b_ += reward * as_vector;
  bound_.front().add({v.data(), dimension()});
  if (tracked.repair_count() != repairs_before) {
    find_weights();
  } else {
    tracked.add_last_solution(reward - dot(v.data(), w_), {w_.data(), dimension()});
  }
}

void RidgeState::find_weights() {
  if (is_small()) {
    kernels::find_weights(small());
    return;
  }
  const TrackedInverse& tracked = large_.front();
  AlignedDoubles sum(tracked.padded_size());
  AlignedDoubles weights(tracked.padded_size());
  std::copy_n(b_.data(), dimension(), sum.data());
  tracked.solve(calling_thread(), sum, weights);
  std::copy_n(weights.data(), dimension(), w_.data());
}

kernels::SmallRidge RidgeState::small() {
  return {dimension(), m_.data(), inverse_.data(), b_.data(), w_.data()};
}

void RidgeState::add_sums(const Eigen::MatrixXd& squares, const Eigen::VectorXd& sum,
                          std::uint64_t samples) {
  check(squares.rows() == b_.size() && squares.cols() == b_.size() && sum.size() == b_.size(),
        "sums have the dimension of the ridge state");
  b_ += sum;
  samples_ += samples;
  if (is_small()) {
    m_ += squares;
    inverse_ = find_ridge_inverse(m_, lambda_);
    since_repair_ = 0;
  } else {
    large_.front().add_sums(calling_thread(), squares);
  }
  find_weights();
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
    b_ += other->b_;
    samples_ += other->samples_;
  }
  add_sums_of(others, SymmetricMatrix::Sign::kPlus);
}

void RidgeState::remove(std::span<const RidgeState* const> others) {
  for (const RidgeState* other : others) {
    check_kind(*other);
    check(other->samples_ <= samples_, "a ridge state gives up no more samples than it has");
    b_ -= other->b_;
    samples_ -= other->samples_;
  }
  add_sums_of(others, SymmetricMatrix::Sign::kMinus);
}

// Adds their M - lambda I to M or subtracts it, then computes inverse and weights from M and b.
void RidgeState::add_sums_of(std::span<const RidgeState* const> others,
                             SymmetricMatrix::Sign sign) {
  if (is_small()) {
    const double factor = sign == SymmetricMatrix::Sign::kPlus ? 1.0 : -1.0;
    for (const RidgeState* other : others) {
      m_ += factor * other->m_;
      m_.diagonal().array() -= factor * lambda_;
    }
    inverse_ = find_ridge_inverse(m_, lambda_);
    since_repair_ = 0;
  } else {
    std::vector<const TrackedInverse*> sums;
    for (const RidgeState* other : others) {
      sums.push_back(&other->large_.front());
      if (sign == SymmetricMatrix::Sign::kPlus) {
        bound_.front().merge(other->bound_.front());
      } else {
        bound_.front().remove(other->bound_.front());
      }
    }
    large_.front().add_sums(calling_thread(), sums, sign);
  }
  find_weights();
}

RidgePrediction RidgeState::bound(std::span<const float> x) const {
  if (is_small()) {
    return predict(x);
  }
  check_features(x);
  AlignedDoubles v(x.size());
  copy_point(x, v.data());
  return {dot(v.data(), w_), largest_uncertainty(v.data())};
}

double RidgeState::largest_uncertainty(const double* x) const {
  const Eigen::Map<const Eigen::VectorXd> v(x, b_.size());
  const Eigen::Map<const Eigen::VectorXd> sum(bound_.front().sum().data(), b_.size());
  return std::sqrt(bound_.front().largest_square(v.squaredNorm(), v.dot(sum)));
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
    predict_large(points, predictions);
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

void RidgeState::predict_large(std::span<const float* const> points,
                               std::span<RidgePrediction> predictions) const {
  const TrackedInverse& tracked = large_.front();
  const std::size_t length = tracked.padded_size();
  AlignedDoubles values(points.size() * length);
  const kernels::BlockRun whole{0, length / kernels::kBlock};
  std::vector<kernels::BlockVector> vectors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    copy_point({points[i], dimension()}, values.data() + i * length);
    vectors.push_back({values.data() + i * length, {&whole, 1}});
  }
  std::vector<double> squares(points.size());
  tracked.find_settled_squares(calling_thread(), vectors, squares);
  for (std::size_t i = 0; i < points.size(); ++i) {
    predictions[i] = {dot(vectors[i].values, w_),
                      std::min(std::sqrt(squares[i]), largest_uncertainty(vectors[i].values))};
  }
}

std::size_t RidgeState::memory_bytes() const {
  const std::size_t vectors = 2 * dimension() * sizeof(double);
  return sizeof *this + vectors +
         (is_small() ? 2 * dimension() * dimension() * sizeof(double)
                     : sizeof large_.front() + large_.front().memory_bytes() +
                           sizeof bound_.front() + bound_.front().memory_bytes());
}

void RidgeState::save(StateWriter& writer) const {
  const auto write = [&](const auto& values) {
    writer.write_bytes(values.data(), static_cast<std::size_t>(values.size()) * sizeof(double));
  };
  writer.write(static_cast<std::uint64_t>(dimension()));
  writer.write(lambda_);
  writer.write(samples_);
  if (is_small()) {
    writer.write(repairs_);
    writer.write(since_repair_);
    write(m_);
    write(inverse_);
  } else {
    large_.front().save(writer);
    bound_.front().save(writer);
  }
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
  if (state.is_small()) {
    state.repairs_ = reader.read<std::uint64_t>();
    state.since_repair_ = reader.read<std::uint64_t>();
    read(state.m_);
    read(state.inverse_);
  } else {
    state.large_.front().load(reader);
    const std::uint64_t repairs = state.repair_count();
    state.large_.front().settle(calling_thread());
    if (state.repair_count() != repairs) {
      reader.fail("the inverse of a ridge state does not match its matrix");
    }
    state.bound_.front().load(reader, state.samples_);
  }
  read(state.b_);
  read(state.w_);
  return state;
}

}  // namespace mcnb
