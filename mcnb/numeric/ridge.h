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

// The prediction of a ridge state for a point x.
struct RidgePrediction {
  double estimate = 0.0;     // x . w
  double uncertainty = 0.0;  // sqrt(x^T M^-1 x)
};

// A ridge regression that learns one sample at a time: M = lambda I + sum x x^T, b = sum r x,
// w = M^-1 b. The inverse is kept up to date by rank-one updates. A guard measures its drift and
// computes it again when fewer than ten digits are right (at most once in `dimension` samples).
//
// Above kSmallRidge dimensions reading memory takes most of the time. Then half of each matrix is
// stored, updates wait until there are 16 (tracked_inverse.h), and the weights are updated by
// w += M^-1 x (r - x.w) until the inverse is next computed again.
class RidgeState {
 public:
  // Throws Error (kUsage) unless 1 <= dimension <= 16,384 and lambda > 0.
  RidgeState(std::size_t dimension, double lambda);

  std::size_t dimension() const { return static_cast<std::size_t>(b_.size()); }
  double lambda() const { return lambda_; }
  std::uint64_t sample_count() const { return samples_; }
  // Dense copies.
  Eigen::MatrixXd matrix() const;
  Eigen::MatrixXd inverse() const;
  const Eigen::VectorXd& sum() const { return b_; }
  const Eigen::VectorXd& weights() const { return w_; }
  // How often the guard computed the inverse again.
  std::uint64_t repair_count() const {
    return is_small() ? repairs_ : large_.front().repair_count();
  }

  // Throws Error (kInput) for a wrong dimension or a number that is not finite.
  void add(std::span<const float> x, double reward);

  // Adds samples given by their sums of x x^T and of r x. Costs one inversion.
  void add_sums(const Eigen::MatrixXd& squares, const Eigen::VectorXd& sum, std::uint64_t samples);

  // Adds all samples of other states of the same dimension and lambda. Costs one inversion.
  void merge(std::span<const RidgeState* const> others);
  void merge(const RidgeState& other);

  // Removes all samples of other states, which must have been merged before. Costs one inversion. M
  // keeps the rounding errors of removed samples: if few samples are left of many, merge the rest
  // into a new state instead.
  void remove(std::span<const RidgeState* const> others);

  // The functions below throw as `add` does.
  RidgePrediction predict(std::span<const float> x) const;
  // Returns predict's estimate, and an upper bound of predict's uncertainty, which holds to the
  // last bit. Cheap above kSmallRidge dimensions; below, the bound is the uncertainty itself.
  RidgePrediction bound(std::span<const float> x) const;
  // Predicts for many points, `dimension` finite numbers each: faster, with the same bits.
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
  // Used up to kSmallRidge dimensions.
  std::uint64_t repairs_ = 0;
  std::uint64_t since_repair_ = 0;  // samples
  Eigen::MatrixXd m_;
  Eigen::MatrixXd inverse_;
  // Used above kSmallRidge dimensions, one element each: M and its inverse, always settled, and a
  // bound from all samples except those given by their sums.
  std::vector<TrackedInverse> large_;
  std::vector<InverseBound> bound_;
};

}  // namespace mcnb
