#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/policy_size.h"
#include "mcnb/base/options.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/inverse_bound.h"
#include "mcnb/numeric/network.h"
#include "mcnb/numeric/tracked_inverse.h"

namespace mcnb {

enum class MatrixForm { kAuto, kFull, kDiagonal };

// The options of policies with a confidence matrix.
struct ConfidenceOptions {
  double alpha = 0.1;
  double lambda = 1.0;
  MatrixForm matrix = MatrixForm::kAuto;
  bool nonnegative = false;  // an estimate below zero counts as zero

  double counted(double estimate) const { return nonnegative ? std::max(0.0, estimate) : estimate; }
};
OptionTable<ConfidenceOptions> confidence_option_table();

// Z = lambda I + sum g g^T over gradients g of a network: it says in which directions of the
// parameters rewards have been seen. The full matrix, or its diagonal alone.
//
// The time for a gradient grows with the features of its block, not with the whole vector; in the
// full form with their square, and `add` touches all of Z.
class ConfidenceMatrix {
 public:
  static constexpr std::size_t kFullByItself = 3'500;  // parameters up to which `auto` means full
  static constexpr std::size_t kMostFull = 20'000;     // 3 GiB

  // Throws Error (kUsage) if the full form is asked for and the network has too many parameters.
  ConfidenceMatrix(const ConfidenceOptions& options, const NetworkShape& shape);

  // What matrices of these options and this shape are.
  static NetworkUncertainty kind_of(const ConfidenceOptions& options, const NetworkShape& shape);

  bool is_full() const { return full_.has_value(); }

  // Z += g g^T.
  void add(ThreadPool& threads, const GradientFactors& gradient);

  // Does now the work that find_squares would do for the latest additions. Until the next addition
  // find_squares then only reads, and several threads may call it.
  void settle(ThreadPool& threads) {
    if (full_) {
      full_->settle(threads);
    }
  }

  // A cheap upper bound of g^T Z^-1 g.
  double largest_square(const GradientFactors& gradient) const;

  // squares[i] = g_i^T Z^-1 g_i, never below zero nor above largest_square. The bits do not depend
  // on how the gradients are grouped.
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
  std::optional<InverseBound> bound_;  // if full
  std::vector<double> diagonal_;       // of Z^-1, if not full
};

}  // namespace mcnb
