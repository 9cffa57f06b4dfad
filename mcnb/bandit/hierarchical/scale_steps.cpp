#include "mcnb/bandit/hierarchical/scale_steps.h"

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/hierarchical/matrix_state.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLargestMove = 2.2;  // of a scale's logarithm in one step
// The prior of every scale: log-normal around 0.1, wide.
constexpr double kUsualScale = 0.1;
constexpr double kScalePriorWeight = 0.02;

// The correlation is shrunk towards the identity as if some users had shown it: as many as there
// are own features, or fewer where more than kFewUsers users have rewards.
constexpr double kFewUsers = 50.0;
// A step of the correlation goes further than its fixed-point equation says, since that converges
// slowly where every user has few rewards.
constexpr double kBoldness = 1.5;

// How well coefficients with one scale are known: the sum of their squared means in units of the
// scale, and how many of them the rewards have determined.
struct Determined {
  double squares = 0.0;
  double count = 0.0;
};

// The scale that fits better, by MacKay's step: near the present one, the evidence as a function of
// the scale's logarithm x goes like -count/2 x - squares/2 exp(-x), to which the prior is added.
double better_scale(double scale, const Determined& known) {
  double move = 0.0;
  for (int i = 0; i < 20; ++i) {
    const double pull = 0.5 * known.squares * std::exp(-move);
    const double slope =
        pull - 0.5 * known.count - 2.0 * kScalePriorWeight * (move + std::log(scale / kUsualScale));
    const double step = slope / (pull + 2.0 * kScalePriorWeight);
    move = std::clamp(move + step, -kLargestMove, kLargestMove);
  }
  return clamp_scale(scale * std::exp(move));
}

// The diagonal of Sigma^-1 M, of a matrix M in whitened coordinates.
VectorXd relative_to(const HierarchyPrior& prior, const RowMatrix& whitened) {
  const auto turned = prior.own_factor.transpose().triangularView<Eigen::Upper>();
  return turned.solve(MatrixXd(whitened * turned)).diagonal();
}

double shrinking_users(const OwnMoments& own, Index own_features) {
  return static_cast<double>(own_features) *
         std::min(1.0, std::sqrt(kFewUsers / std::max(1.0, own.learners)));
}

}  // namespace

double clamp_scale(double scale) { return std::clamp(scale, 1e-6, 1e4); }

double log_prior(double scale) {
  const double distance = std::log(scale / kUsualScale);
  return -kScalePriorWeight * distance * distance;
}

bool is_fixed(const FeatureMap& map, FeatureGroup group) {
  return map.body() && (group == FeatureGroup::kHidden || group == FeatureGroup::kConstant);
}

void improve_scales(const FeatureMap& map, const HierarchyPrior& prior,
                    const SharedPosterior& shared, const OwnMoments& own, HierarchyScales& scales) {
  ByFeatureGroup<Determined> of_shared{};
  ByFeatureGroup<Determined> of_own{};
  const VectorXd own_squares = relative_to(prior, own.means);
  const VectorXd own_unknown = relative_to(prior, own.covariances);
  const VectorXd shared_unknown = shared.covariance.diagonal();
  const std::span<const FeatureGroup> groups = map.groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto at = static_cast<Index>(i);
    Determined& all = of_shared[static_cast<std::size_t>(groups[i])];
    all.squares += shared.mean[at] * shared.mean[at] / (shared.noise * prior.shared[at]);
    all.count += 1.0 - shared_unknown[at] / prior.shared[at];
    if (i < map.own_size()) {
      Determined& each = of_own[static_cast<std::size_t>(groups[i])];
      each.squares += own_squares[at];
      each.count += own.learners - own_unknown[at];
    }
  }
  for (std::size_t group = 0; group < kFeatureGroups; ++group) {
    if (is_fixed(map, static_cast<FeatureGroup>(group))) {
      continue;
    }
    if (group != static_cast<std::size_t>(FeatureGroup::kConstant)) {
      scales.shared[group] = better_scale(scales.shared[group], of_shared[group]);
    }
    if (scales.own[group] > 0.0) {
      scales.own[group] = better_scale(scales.own[group], of_own[group]);
    }
  }
}

// In the coordinates of the moments, where the present covariance is the identity, let `seen` be
// the sum of the users' squared mean coefficients, and `expected` what it would be on average if
// Sigma were true. The evidence is stationary where the two are equal. MacKay's step for one
// variance multiplies it by seen / expected; this is the same for a matrix.
void improve_correlation(const FeatureMap& map, const HierarchyPrior& prior, const OwnMoments& own,
                         HierarchyScales& scales) {
  const Index size = prior.own.rows();
  const double shrinking = shrinking_users(own, size);
  const std::span<const FeatureGroup> groups = map.groups();
  VectorXd variances(size);
  for (Index i = 0; i < size; ++i) {
    variances[i] = scales.own[static_cast<std::size_t>(groups[static_cast<std::size_t>(i)])];
  }
  const MatrixXd deviating = prior.own_factor.triangularView<Eigen::Lower>().solve(
      MatrixXd(variances.cwiseSqrt().asDiagonal()));
  const MatrixXd seen = own.means + shrinking * deviating * deviating.transpose();
  MatrixXd expected = -own.covariances;
  expected.diagonal().array() += own.learners + shrinking;
  const MatrixXd root = Eigen::SelfAdjointEigenSolver<MatrixXd>(expected).operatorInverseSqrt();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> ratio(root * seen * root);
  VectorXd deviations(size);
  for (Index i = 0; i < size; ++i) {
    const double move = kBoldness * std::log(std::max(ratio.eigenvalues()[i], 1e-12));
    deviations[i] = std::exp(0.5 * std::clamp(move, -kLargestMove, kLargestMove));
  }
  const MatrixXd moved = variances.cwiseSqrt().cwiseInverse().asDiagonal() *
                         (prior.own_factor * (ratio.eigenvectors() * deviations.asDiagonal()));
  const MatrixXd correlation = moved * moved.transpose();
  scales.correlation = 0.5 * (correlation + correlation.transpose());
}

}  // namespace mcnb
