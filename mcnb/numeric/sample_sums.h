#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/ridge.h"

namespace mcnb {

// Samples in the form that ridge regressions need. While there are fewer samples than dimensions
// they are stored as they are; then they are replaced by their sums of x x^T and of r x. So users
// with few samples take little memory, and their weights little time.
class SampleSums {
 public:
  explicit SampleSums(std::size_t dimension) : dimension_(dimension) {}

  std::size_t dimension() const { return dimension_; }
  std::uint64_t count() const { return summed_ + rewards_.size(); }

  void add(std::span<const float> x, float reward);
  // Adds all samples of another object.
  void merge(const SampleSums& other);

  // w = (lambda I + sum x x^T)^-1 sum r x. Costs, for T samples in d dimensions, T^2 (d + T/6)
  // multiplications if T < d; else d^3 / 6, and d^2 / 2 for each sample since the last sums.
  Eigen::VectorXd weights(double lambda) const;
  // The ridge regression of all samples; costs an inversion.
  RidgeState ridge(double lambda) const;

  std::size_t memory_bytes() const;  // without sizeof *this
  void save(StateWriter& writer) const;
  // Requires an object of the same dimension.
  void load(StateReader& reader);

 private:
  friend class TrackedWeights;
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Rows rows() const;
  Eigen::VectorXd rewards() const;
  // The sum of x x^T over all samples, in the lower half.
  Eigen::MatrixXd all_squares() const;
  Eigen::VectorXd whole_sum() const;

  std::size_t dimension_;
  std::vector<float> values_;  // of the samples that are stored, one after the other
  std::vector<float> rewards_;
  std::uint64_t summed_ = 0;  // samples
  Eigen::MatrixXd squares_;   // the lower half; empty before the first sums
  Eigen::VectorXd sum_;
};

// Samples, and the weights of their ridge regression after every sample. A sample costs, for T
// samples in d dimensions, about T (2 d + 2 T) multiplications while T < d, and 2 d^2 from then on:
// a Cholesky factor grows by a row or takes a rank-one update. (Updates add to a positive matrix,
// so any number of them loses no digits.)
class TrackedWeights {
 public:
  TrackedWeights(std::size_t dimension, double lambda);

  const SampleSums& samples() const { return samples_; }
  const Eigen::VectorXd& weights() const { return weights_; }

  void add(std::span<const float> x, float reward);
  // Like one `add` per sample, up to rounding, but computes the factor once.
  template <class AddSamples>
  void add_many(AddSamples add_samples) {
    add_samples(samples_);
    factorise();
    solve();
  }

  std::size_t memory_bytes() const;  // without sizeof *this
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  void factorise();
  bool append_row(std::span<const float> x);
  void update_factor(Eigen::VectorXd x);
  void solve();
  void forget_factor();

  double lambda_;
  SampleSums samples_;
  // The Cholesky factor: rows_ is that of lambda I + X X^T, the lower half row by row, while
  // samples are stored; factor_ is that of lambda I + sum x x^T once they are summed up. Both are
  // empty if lambda is lost in the rounding.
  std::vector<double> rows_;
  Eigen::MatrixXd factor_;
  Eigen::VectorXd weights_;
};

}  // namespace mcnb
