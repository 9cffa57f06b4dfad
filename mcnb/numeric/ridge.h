#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/inverse_bound.h"
#include "mcnb/numeric/ridge_kernels.h"
#include "mcnb/numeric/tracked_inverse.h"

namespace mcnb {

// What a ridge state says about one point x.
struct RidgePrediction {
  double estimate = 0.0;     // x . w
  double uncertainty = 0.0;  // sqrt(x^T M^-1 x)
};

// A ridge regression that learns one sample at a time: M = lambda I + sum x x^T, b = sum r x,
// w = M^-1 b. The inverse follows by rank-one updates; a guard watches its drift and computes it
// anew when it is no longer the inverse to ten digits (at most once in `dimension` samples).
//
// Of more than kSmallRidge dimensions everything is as slow as memory: then half of each matrix is
// kept, updates wait until there are 16 (tracked_inverse.h), and the weights follow by
// w += M^-1 x (r - x.w), until the inverse is next computed anew.
class RidgeState {
 public:
  // Throws Error (kUsage) unless 1 <= dimension <= 16,384 and lambda > 0.
  RidgeState(std::size_t dimension, double lambda);

  std::size_t dimension() const { return static_cast<std::size_t>(b_.size()); }
  double lambda() const { return lambda_; }
  std::uint64_t sample_count() const { return samples_; }
  // Copies.
  Eigen::MatrixXd matrix() const;
  Eigen::MatrixXd inverse() const;
  const Eigen::VectorXd& sum() const { return b_; }
  const Eigen::VectorXd& weights() const { return w_; }
  // How often the guard computed the inverse anew.
  std::uint64_t repair_count() const {
    return is_small() ? repairs_ : large_.front().repair_count();
  }

  // Throws Error (kInput) for a wrong dimension or a number that is not finite.
  void add(std::span<const float> x, double reward);

  // Adds samples by their sums: of x x^T and of r x. One inversion.
  void add_sums(const Eigen::MatrixXd& squares, const Eigen::VectorXd& sum, std::uint64_t samples);

  // Takes over all samples of other states of the same dimension and lambda; one inversion.
  void merge(std::span<const RidgeState* const> others);
  void merge(const RidgeState& other);

  // Gives up all samples of other states, which it must have taken over before; one inversion. M
  // keeps the roundings of what has been given up: where little is left of much, merge anew.
  void remove(std::span<const RidgeState* const> others);

  // Throw as `add` does.
  RidgePrediction predict(std::span<const float> x) const;
  // The same estimate, and an uncertainty that the true one does not exceed, to the last bit. Above
  // kSmallRidge dimensions this costs little; below, they are equal.
  RidgePrediction bound(std::span<const float> x) const;
  // The same for many points at once, `dimension` finite numbers each: the same bits, sooner.
  void predict(std::span<const float* const> points, std::span<RidgePrediction> predictions) const;
  double estimate(std::span<const float> x) const { return bound(x).estimate; }
  double uncertainty(std::span<const float> x) const { return predict(x).uncertainty; }

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  static RidgeState load(StateReader& reader);

 private:
  bool is_small() const { return dimension() <= kernels::kSmallRidge; }
  kernels::SmallRidge small();
  void add_small(std::span<const float> x, double reward);
  void add_large(std::span<const float> x, double reward);
  void add_sums_of(std::span<const RidgeState* const> others, SymmetricMatrix::Sign sign);
  void predict_large(std::span<const float* const> points,
                     std::span<RidgePrediction> predictions) const;
  double largest_uncertainty(const double* x) const;
  void find_weights();
  void check_features(std::span<const float> x) const;
  void check_kind(const RidgeState& other) const;

  double lambda_;
  std::uint64_t samples_ = 0;
  Eigen::VectorXd b_;
  Eigen::VectorXd w_;
  // Of small dimensions.
  std::uint64_t repairs_ = 0;
  std::uint64_t since_repair_ = 0;  // samples
  Eigen::MatrixXd m_;
  Eigen::MatrixXd inverse_;
  // Of large ones, M and its inverse, always solved for, and a bound that knows of all samples but
  // those that came by their sums: one of each, or none.
  std::vector<TrackedInverse> large_;
  std::vector<InverseBound> bound_;
};

}  // namespace mcnb
