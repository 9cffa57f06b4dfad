#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// The gradient of a network at one point, without the rows of W_1 that the features do not meet:
// a run of values for the rows they do, and a run for all other parameters.
struct SparseGradient {
  std::vector<double> values;  // the first run, then the other
  std::size_t first_start = 0;
  std::size_t first_count = 0;
  std::size_t rest_start = 0;
};

void expand_gradient(const NetworkShape& shape, const GradientFactors& factors,
                     SparseGradient& gradient);

// Z = lambda I + sum g g^T: in which directions of the parameters rewards have been seen.
//
// The whole form keeps Z^-1 in double precision, the lower half of it, and follows by rank-one
// updates. Unlike RidgeState it needs no guard against drift: an error E of the inverse goes over
// into A E A^T, A = I - Z'^-1 g g^T, which shrinks it like the inverse itself, so that the
// roundings of many updates add up but do not grow. (The test compares 5,000 updates with a fresh
// inverse.) The guard would need Z itself beside it: twice the memory and the time of an update.
class ConfidenceMatrix {
 public:
  enum class Form { kWhole, kDiagonal };
  static constexpr std::size_t kMostWhole = 20'000;  // 1.5 GiB

  // Requires lambda > 0 and, for a whole one, at most kMostWhole parameters.
  ConfidenceMatrix(std::size_t parameters, double lambda, Form form);

  Form form() const { return form_; }

  // Z += g g^T.
  void add(const SparseGradient& gradient);

  // squares[i] = g_i^T Z^-1 g_i, never below zero. The same bits however the gradients are grouped.
  void find_squares(std::span<const SparseGradient> gradients, std::span<double> squares) const;

  std::size_t memory_bytes() const { return values_.capacity() * sizeof values_[0]; }
  void save(StateWriter& writer) const;
  // Into a matrix of the same size and form.
  void load(StateReader& reader);

 private:
  const double* row(std::size_t i) const { return values_.data() + i * (i + 1) / 2; }
  double* row(std::size_t i) { return values_.data() + i * (i + 1) / 2; }

  std::size_t parameters_;
  Form form_;
  std::vector<double> values_;   // row(i): Z^-1 (i, 0..i); or the diagonal of Z
  std::vector<double> product_;  // scratch of add: Z^-1 g
};

}  // namespace mcnb
