#include "mcnb/numeric/kernel_ridge.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr double kDriftAllowed = 1e-10;
constexpr double kDriftLoaded = 1e-6;  // a saved factor with more drift is damaged

auto as_vector(std::span<const float> values) {
  return Eigen::Map<const Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(values.size()))
      .cast<double>();
}

double squares_of(std::span<const float> values) {
  return values.empty() ? 0.0 : as_vector(values).squaredNorm();
}

// |x - y|^2. Uses the given |x|^2 and |y|^2 only for blocks that do not overlap: if x and y are
// close, a difference of large numbers would be inaccurate.
double squared_distance(const Features& x, double x_squares, const Features& y, double y_squares) {
  const std::size_t begin = std::max(x.offset, y.offset);
  const std::size_t end = std::min(x.offset + x.values.size(), y.offset + y.values.size());
  if (begin >= end) {
    return x_squares + y_squares;
  }
  const auto common = [&](const Features& features) {
    return features.values.subspan(begin - features.offset, end - begin);
  };
  double sum = (as_vector(common(x)) - as_vector(common(y))).squaredNorm();
  for (const Features* features : {&x, &y}) {
    sum += squares_of(features->values.first(begin - features->offset));
    sum += squares_of(features->values.subspan(end - features->offset));
  }
  return sum;
}

Eigen::Index as_index(std::size_t number) { return static_cast<Eigen::Index>(number); }

}  // namespace

KernelRidge::KernelRidge(double bandwidth, double lambda) : bandwidth_(bandwidth), lambda_(lambda) {
  check(bandwidth > 0.0 && lambda > 0.0, "bandwidth and lambda are positive");
}

auto KernelRidge::factor() const {
  const Eigen::Index count = as_index(size());
  return factor_.topLeftCorner(count, count).triangularView<Eigen::Lower>();
}

double KernelRidge::kernel(const Features& x, double squares, const Point& point) const {
  return std::exp(-squared_distance(x, squares, point.features(), point.squares) /
                  (2.0 * bandwidth_ * bandwidth_));
}

void KernelRidge::fill_kernels(std::size_t position, Eigen::Ref<Eigen::VectorXd> column) const {
  const Point& point = points_[position];
  for (Eigen::Index i = 0; i < column.size(); ++i) {
    column[i] = kernel(point.features(), point.squares, points_[static_cast<std::size_t>(i)]);
  }
}

// Capacities are multiples of 16, so that columns have the same alignment at any capacity: the
// order of Eigen's sums depends on the alignment, and a loaded state may have another capacity than
// the saved one but must sum in the same order.
void KernelRidge::make_room(std::size_t samples) {
  if (samples <= static_cast<std::size_t>(factor_.rows())) {
    return;
  }
  const Eigen::Index room = as_index((samples + samples / 4 + 15) / 16 * 16);
  factor_.conservativeResize(room, room);
  projection_.conservativeResize(room);
}

// Computes row `row` of L and of z from all rows before it.
void KernelRidge::append_row(std::size_t row) {
  const Eigen::Index count = as_index(row);
  Eigen::VectorXd v(count);
  fill_kernels(row, v);
  if (count > 0) {
    factor_.topLeftCorner(count, count).triangularView<Eigen::Lower>().solveInPlace(v);
  }
  // k(x, x) - |v|^2 is a squared length: only rounding makes it negative.
  const double pivot = std::sqrt(std::max(0.0, 1.0 - v.squaredNorm()) + lambda_);
  factor_.row(count).head(count) = v.transpose();
  factor_(count, count) = pivot;
  projection_[count] =
      (static_cast<double>(points_[row].reward) - v.dot(projection_.head(count))) / pivot;
}

void KernelRidge::add(const Sample& sample) {
  check(size() < kMostSamples, "a kernel ridge regression has room for the sample");
  const std::span<const float> values = sample.features.values;
  make_room(size() + 1);
  points_.push_back(
      {{values.begin(), values.end()}, sample.features.offset, sample.reward, squares_of(values)});
  append_row(size() - 1);
}

// Without row `position`, L has one more column than rows: (w, L_33) below that row, where w is
// column `position`. Rotations of w with one column after the other turn this into (0, L_33'),
// which is again a Cholesky factor. z is treated as one more row below L.
void KernelRidge::remove(std::size_t position) {
  check(position < size(), "the sample to remove exists");
  const Eigen::Index count = as_index(size());
  const Eigen::Index gap = as_index(position);
  Eigen::VectorXd w = factor_.col(gap).head(count);
  double w_of_z = projection_[gap];
  for (Eigen::Index k = 0; k < gap; ++k) {
    double* const column = factor_.col(k).data();
    std::copy(column + gap + 1, column + count, column + gap);
  }
  for (Eigen::Index k = gap + 1; k < count; ++k) {
    const double length = std::hypot(factor_(k, k), w[k]);
    const double cosine = factor_(k, k) / length;
    const double sine = w[k] / length;
    const Eigen::Index below = count - k - 1;
    auto from = factor_.col(k).segment(k + 1, below);
    auto rest = w.segment(k + 1, below);
    factor_(k - 1, k - 1) = length;
    factor_.col(k - 1).segment(k, below) = cosine * from + sine * rest;
    rest = cosine * rest - sine * from;
    const double z = projection_[k];
    projection_[k - 1] = cosine * z + sine * w_of_z;
    w_of_z = cosine * w_of_z - sine * z;
  }
  points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(position));
  watch_drift();
}

void KernelRidge::watch_drift() {
  ++departures_;
  ++since_repair_;
  if (points_.empty()) {
    return;
  }
  const auto probe = static_cast<std::size_t>(departures_ % size());
  Eigen::VectorXd expected(as_index(size()));
  fill_kernels(probe, expected);
  expected[as_index(probe)] += lambda_;
  Eigen::VectorXd row = Eigen::VectorXd::Zero(expected.size());
  const Eigen::Index length = as_index(probe) + 1;
  row.head(length) = factor_.row(as_index(probe)).head(length).transpose();
  const double drift = (factor() * row - expected).cwiseAbs().maxCoeff();
  // Factoring again at this rate costs no more than the rotations.
  if (!(drift <= kDriftAllowed * (1.0 + lambda_)) && since_repair_ >= size()) {
    factor_again();
    ++repairs_;
    since_repair_ = 0;
  }
}

void KernelRidge::factor_again() {
  for (std::size_t row = 0; row < size(); ++row) {
    append_row(row);
  }
}

void KernelRidge::predict(std::span<const Features> points,
                          std::span<KernelPrediction> predictions) const {
  check(points.size() == predictions.size(), "every point has a prediction");
  Eigen::MatrixXd v(as_index(size()), as_index(points.size()));
  for (std::size_t j = 0; j < points.size(); ++j) {
    const double squares = squares_of(points[j].values);
    for (std::size_t i = 0; i < size(); ++i) {
      v(as_index(i), as_index(j)) = kernel(points[j], squares, points_[i]);
    }
  }
  if (!points_.empty()) {
    factor().solveInPlace(v);
  }
  for (std::size_t j = 0; j < points.size(); ++j) {
    const auto column = v.col(as_index(j));
    predictions[j].estimate = column.dot(projection_.head(as_index(size())));
    predictions[j].uncertainty = std::sqrt(std::max(0.0, 1.0 - column.squaredNorm()) / lambda_);
  }
}

std::size_t KernelRidge::memory_bytes() const {
  std::size_t bytes =
      sizeof *this + points_.capacity() * sizeof points_[0] +
      static_cast<std::size_t>(factor_.size() + projection_.size()) * sizeof(double);
  for (const Point& point : points_) {
    bytes += point.values.capacity() * sizeof(float);
  }
  return bytes;
}

void KernelRidge::save(StateWriter& writer) const {
  writer.write(departures_);
  writer.write(since_repair_);
  writer.write(repairs_);
  writer.write(static_cast<std::uint64_t>(size()));
  for (std::size_t i = 0; i < size(); ++i) {
    const Point& point = points_[i];
    writer.write(point.offset);
    writer.write(point.reward);
    writer.write_all(point.values);
    const double* const column = factor_.col(as_index(i)).data();
    writer.write_all(std::span(column + i, size() - i));
    writer.write(projection_[as_index(i)]);
  }
}

void KernelRidge::load(StateReader& reader, const NetworkShape& shape, std::size_t limit) {
  check(points_.empty(), "a kernel ridge regression is loaded into an empty one");
  departures_ = reader.read<std::uint64_t>();
  since_repair_ = reader.read<std::uint64_t>();
  repairs_ = reader.read<std::uint64_t>();
  const auto count = reader.read<std::uint64_t>();
  if (count > std::min(limit, kMostSamples)) {
    reader.fail("a kernel ridge regression has more samples than it may hold");
  }
  std::vector<double> lengths(static_cast<std::size_t>(count));  // squared, of the rows of L
  for (std::size_t i = 0; i < count; ++i) {
    const auto offset = reader.read<std::uint32_t>();
    const auto reward = reader.read<float>();
    std::vector<float> values = reader.read_all<float>(shape.inputs);
    const auto finite = [](double value) { return std::isfinite(value); };
    if (!features_fit(shape, {values, offset}) || !std::ranges::all_of(values, finite) ||
        !finite(reward)) {
      reader.fail("a sample is not one that could have been learned");
    }
    const double squares = squares_of(values);
    points_.push_back({std::move(values), offset, reward, squares});
    const std::vector<double> column = reader.read_all<double>(count - i);
    make_room(static_cast<std::size_t>(count));
    projection_[as_index(i)] = reader.read<double>();
    if (column.size() != count - i || !std::ranges::all_of(column, finite) ||
        !(column[0] * column[0] >= lambda_ * (1.0 - kDriftLoaded)) ||
        !finite(projection_[as_index(i)])) {
      reader.fail("a column is not one of a Cholesky factor");
    }
    std::ranges::copy(column, factor_.col(as_index(i)).data() + i);
    for (std::size_t j = 0; j < column.size(); ++j) {
      lengths[i + j] += column[j] * column[j];
    }
  }
  for (const double length : lengths) {  // k(x, x) = 1
    if (!(std::abs(length - 1.0 - lambda_) <= kDriftLoaded * (1.0 + lambda_))) {
      reader.fail("a row is not one of the Cholesky factor of a kernel");
    }
  }
}

}  // namespace mcnb
