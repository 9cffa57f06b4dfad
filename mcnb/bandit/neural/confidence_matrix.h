#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/base/options.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/inverse_bound.h"
#include "mcnb/numeric/network.h"
#include "mcnb/numeric/tracked_inverse.h"

namespace mcnb {

enum class MatrixForm { kAuto, kFull, kDiagonal };

// What every policy with a confidence matrix may choose of its bounds.
struct ConfidenceOptions {
  double alpha = 0.1;
  double lambda = 1.0;
  MatrixForm matrix = MatrixForm::kAuto;
  bool nonnegative = false;  // an estimate counts as zero where it is less

  double counted(double estimate) const { return nonnegative ? std::max(0.0, estimate) : estimate; }
};
OptionTable<ConfidenceOptions> confidence_option_table();

// Z = lambda I + sum g g^T, g the gradients of a network: in which directions of the parameters
// rewards have been seen. Full, or its diagonal alone.
//
// A gradient costs time in proportion to the features that it has, not to the whole vector that
// they are a block of; in the full form, to its square, and `add` touches all of Z.
class ConfidenceMatrix {
 public:
  static constexpr std::size_t kFullByItself = 3'500;  // parameters up to which `auto` is full
  static constexpr std::size_t kMostFull = 20'000;     // 3 GiB

  // Throws Error (kUsage) where the full form is asked for and has no room.
  ConfidenceMatrix(const ConfidenceOptions& options, const NetworkShape& shape);

  bool is_full() const { return full_.has_value(); }

  // Z += g g^T.
  void add(ThreadPool& threads, const GradientFactors& gradient);

  // Does now what the next squares would do for the last additions: those until the next one then
  // only read, and may be looked for side by side.
  void settle(ThreadPool& threads) {
    if (full_) {
      full_->settle(threads);
    }
  }

  // What g^T Z^-1 g cannot exceed. Cheap.
  double largest_square(const GradientFactors& gradient) const;

  // squares[i] = g_i^T Z^-1 g_i, never below zero nor above the largest. The same bits however the
  // gradients are grouped.
  void find_squares(ThreadPool& threads, std::span<const GradientFactors> gradients,
                    std::span<double> squares);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Into a matrix of the same options and shape.
  void load(StateReader& reader);

 private:
  void find_diagonal_squares(ThreadPool& threads, std::span<const GradientFactors> gradients,
                             std::span<double> squares);
  void find_full_squares(ThreadPool& threads, std::span<const GradientFactors> gradients,
                         std::span<double> squares);

  NetworkShape shape_;
  double lambda_;
  std::optional<TrackedInverse> full_;
  std::optional<InverseBound> bound_;  // where it is full
  std::vector<double> diagonal_;       // of Z^-1, where it is not full
};

}  // namespace mcnb
