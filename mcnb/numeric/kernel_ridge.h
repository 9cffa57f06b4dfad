#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// What a kernel ridge regression says about a point.
struct KernelPrediction {
  double estimate = 0.0;     // k^T (K + lambda I)^-1 r
  double uncertainty = 0.0;  // sqrt((k(x, x) - k^T (K + lambda I)^-1 k) / lambda)
};

// A ridge regression in the feature space of the kernel k(x, y) = exp(-|x - y|^2 / (2 bandwidth^2))
// that samples can join and leave. Features are blocks of longer vectors, zero elsewhere, and as
// far apart as the whole vectors are; they may overlap in any way.
//
// Keeps the Cholesky factor L of K + lambda I and z = L^-1 r. A sample joins by one more row of L
// (a triangular solve) and leaves by rotations that give its column to the rows behind it: both
// cost O(s^2) for s samples, and neither divides by anything smaller than sqrt(lambda). With
// v = L^-1 k the estimate is v.z and k^T (K + lambda I)^-1 k is |v|^2. A guard compares one row of
// L L^T, another one each time a sample leaves, with the kernel, and factors anew when they differ
// in the tenth digit (at most once in s departures).
class KernelRidge {
 public:
  static constexpr std::size_t kMostSamples = 20'000;

  // Requires bandwidth > 0 and lambda > 0.
  KernelRidge(double bandwidth, double lambda);

  std::size_t size() const { return points_.size(); }
  // How often the guard factored anew.
  std::uint64_t repair_count() const { return repairs_; }

  // The sample joins behind all others. Requires finite numbers and size() < kMostSamples.
  void add(const Sample& sample);

  // The sample at `place` leaves; those behind it move up.
  void remove(std::size_t place);

  // predictions[i] for points[i], all points in one triangular solve. The same bits for the same
  // list of points; a point in another list may differ in its last digits.
  void predict(std::span<const Features> points, std::span<KernelPrediction> predictions) const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Into an empty one made with the same numbers; refuses points that do not fit `shape`, more than
  // `limit` samples, and factors that are none of such a kernel.
  void load(StateReader& reader, const NetworkShape& shape, std::size_t limit);

 private:
  struct Point {
    std::vector<float> values;
    std::uint32_t offset;
    float reward;
    double squares;  // |x|^2

    Features features() const { return {values, offset}; }
  };

  double kernel(const Features& x, double squares, const Point& point) const;
  // The values of the kernel between `points_[place]` and the first `column.size()` points.
  void fill_kernels(std::size_t place, Eigen::Ref<Eigen::VectorXd> column) const;
  void append_row(std::size_t row);
  void make_room(std::size_t samples);
  void watch_drift();
  void factor_anew();
  auto factor() const;

  double bandwidth_;
  double lambda_;
  std::vector<Point> points_;   // in the order they joined
  Eigen::MatrixXd factor_;      // L in its upper left corner, with room to grow
  Eigen::VectorXd projection_;  // z, as long as factor_
  std::uint64_t departures_ = 0;
  std::uint64_t since_repair_ = 0;  // departures
  std::uint64_t repairs_ = 0;
};

}  // namespace mcnb
