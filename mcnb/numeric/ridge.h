#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "mcnb/base/state_file.h"

namespace mcnb {

// A ridge regression that learns one sample at a time: M = lambda I + sum x x^T, b = sum r x,
// w = M^-1 b. The inverse follows by rank-one updates; a guard watches its drift and computes it
// anew when it is no longer the inverse to ten digits (at most once in `dimension` samples).
class RidgeState {
 public:
  // Throws Error (kUsage) unless 1 <= dimension <= 16,384 and lambda > 0.
  RidgeState(std::size_t dimension, double lambda);

  std::size_t dimension() const { return static_cast<std::size_t>(b_.size()); }
  double lambda() const { return lambda_; }
  std::uint64_t sample_count() const { return samples_; }
  const Eigen::MatrixXd& matrix() const { return m_; }
  const Eigen::MatrixXd& inverse() const { return inverse_; }
  const Eigen::VectorXd& sum() const { return b_; }
  const Eigen::VectorXd& weights() const { return w_; }
  // How often the guard computed the inverse anew.
  std::uint64_t repair_count() const { return repairs_; }

  // Throws Error (kInput) for a wrong dimension or a number that is not finite.
  void add(std::span<const float> x, double reward);

  // Takes over all samples of another state of the same dimension and lambda.
  void merge(const RidgeState& other);

  double estimate(std::span<const float> x) const;     // x . w
  double uncertainty(std::span<const float> x) const;  // sqrt(x^T M^-1 x)

  void save(StateWriter& writer) const;
  static RidgeState load(StateReader& reader);

 private:
  Eigen::VectorXd to_vector(std::span<const float> x) const;
  void invert();

  double lambda_;
  std::uint64_t samples_ = 0;
  std::uint64_t repairs_ = 0;
  std::uint64_t since_repair_ = 0;  // samples
  Eigen::MatrixXd m_;
  Eigen::MatrixXd inverse_;
  Eigen::VectorXd b_;
  Eigen::VectorXd w_;
};

}  // namespace mcnb
