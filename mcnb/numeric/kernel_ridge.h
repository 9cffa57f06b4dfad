#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// The prediction of a kernel ridge regression for a point.
struct KernelPrediction {
  double estimate = 0.0;     // k^T (K + lambda I)^-1 r
  double uncertainty = 0.0;  // sqrt((k(x, x) - k^T (K + lambda I)^-1 k) / lambda)
};

// A ridge regression in the feature space of the kernel k(x, y) = exp(-|x - y|^2 / (2 bandwidth^2))
// that samples can join and leave. Features are blocks of longer vectors that are zero elsewhere;
// distances are those of the whole vectors, and blocks may overlap in any way.
//
// Keeps the Cholesky factor L of K + lambda I and z = L^-1 r. A sample joins by one more row of L
// (a triangular solve) and leaves by rotations that move its column into the rows below it. Both
// cost O(s^2) for s samples, and neither divides by anything smaller than sqrt(lambda). With v =
// L^-1 k the estimate is v.z and k^T (K + lambda I)^-1 k is |v|^2. Each time a sample leaves, a
// guard compares one row of L L^T, a different one each time, with the kernel. If they differ in
// the tenth digit, it computes L again (at most once in s departures).
class KernelRidge {
 public:
  static constexpr std::size_t kMostSamples = 20'000;

  // Requires bandwidth > 0 and lambda > 0.
  KernelRidge(double bandwidth, double lambda);

  std::size_t size() const { return points_.size(); }
  // How often the guard computed L again.
  std::uint64_t repair_count() const { return repairs_; }

  // Appends a sample. Requires finite numbers and size() < kMostSamples.
  void add(const Sample& sample);

  // Removes the sample at `position`; later ones move up.
  void remove(std::size_t position);

  // Fills predictions[i] for points[i], by one triangular solve for all points. Equal lists of
  // points give equal bits; a point in another list may differ in the last digits.
  void predict(std::span<const Features> points, std::span<KernelPrediction> predictions) const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Requires an empty object made with the same numbers. Refuses points that do not fit `shape`,
  // more than `limit` samples, and factors that do not belong to such a kernel.
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
  // Computes the kernel between `points_[position]` and the first `column.size()` points.
  void fill_kernels(std::size_t position, Eigen::Ref<Eigen::VectorXd> column) const;
  void append_row(std::size_t row);
  void make_room(std::size_t samples);
  void watch_drift();
  void factor_again();
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
