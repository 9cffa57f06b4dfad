// Empirical Bayes: the scales of the prior that make the rewards most likely.

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/hierarchical/hierarchy.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kFitSteps = 2;  // each moves the scales, then the correlation
constexpr double kSmallestScale = 1e-6;
constexpr double kLargestScale = 1e4;
constexpr double kLargestMove = 2.2;  // of a scale's logarithm in one step
// The prior of every scale: log-normal around 0.1, wide.
constexpr double kUsualScale = 0.1;
constexpr double kScalePriorWeight = 0.02;
constexpr double kMemoryFactor = 3.0;
constexpr int kMemorySteps = 2;  // in one fit

double log_prior(double scale) {
  const double distance = std::log(scale / kUsualScale);
  return -kScalePriorWeight * distance * distance;
}

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
  return std::clamp(scale * std::exp(move), kSmallestScale, kLargestScale);
}

// Moves the scale of every group of features, but for the shared constant's.
void improve_scales(const FeatureMap& map, const HierarchyPrior& prior,
                    const SharedPosterior& shared, const OwnMoments& own, HierarchyScales& scales) {
  ByFeatureGroup<Determined> of_shared{};
  ByFeatureGroup<Determined> of_own{};
  const Eigen::LLT<MatrixXd> factor(prior.own);
  const VectorXd own_squares = factor.solve(own.means).diagonal();
  const VectorXd own_unknown = factor.solve(own.covariances).diagonal();
  const VectorXd shared_unknown = shared.covariance.dense().diagonal();
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
    if (group != static_cast<std::size_t>(FeatureGroup::kConstant)) {
      scales.shared[group] = better_scale(scales.shared[group], of_shared[group]);
    }
    if (scales.own[group] > 0.0) {
      scales.own[group] = better_scale(scales.own[group], of_own[group]);
    }
  }
}

// One step of expectation maximisation for the correlation, shrunk towards the identity as if as
// many users as there are own features had shown it.
void improve_correlation(const HierarchyPrior& prior, const OwnMoments& own,
                         HierarchyScales& scales) {
  const auto size = static_cast<double>(prior.own.rows());
  const VectorXd inverse_deviations =
      (prior.own.diagonal().array() / scales.correlation.diagonal().array()).rsqrt();
  MatrixXd sum = inverse_deviations.asDiagonal() * (own.means + own.covariances) *
                 inverse_deviations.asDiagonal();
  sum.diagonal().array() += size;
  scales.correlation = sum / (size + own.learners);
  scales.correlation = (0.5 * (scales.correlation + scales.correlation.transpose())).eval();
}

}  // namespace

void Hierarchy::fit(bool correlations) {
  HierarchyScales scales = scales_;
  RewardSums sums = sum_rewards(scales.memory);
  const auto posterior = [&](const HierarchyPrior& prior) {
    return shared_posterior(sums.evidence(prior, threads_), prior, threads_);
  };
  for (int step = 0; step < kFitSteps; ++step) {
    HierarchyPrior prior = prior_of(scales);
    SharedPosterior shared = posterior(prior);
    improve_scales(map_, prior, shared, sums.own_moments(prior, shared, threads_), scales);
    if (correlations) {
      prior = prior_of(scales);
      shared = posterior(prior);
      improve_correlation(prior, sums.own_moments(prior, shared, threads_), scales);
    }
  }
  if (scales.memory > 0.0) {
    improve_memory(scales, sums);
  }
  install(std::move(scales), sums);
}

// The evidence is flat in the memory's variance, which can take the noise's part: only large steps
// show where it rises.
void Hierarchy::improve_memory(HierarchyScales& scales, RewardSums& sums) const {
  const auto value = [&](const HierarchyScales& at, const RewardSums& of) {
    const HierarchyPrior prior = prior_of(at);
    return shared_posterior(of.evidence(prior, threads_), prior, threads_).log_evidence +
           log_prior(at.memory);
  };
  double best = value(scales, sums);
  for (const double factor : {kMemoryFactor, 1.0 / kMemoryFactor}) {
    bool moved = false;
    for (int step = 0; step < kMemorySteps; ++step) {
      HierarchyScales next = scales;
      next.memory = std::clamp(scales.memory * factor, kSmallestScale, kLargestScale);
      RewardSums next_sums = sum_rewards(next.memory);
      const double now = value(next, next_sums);
      if (!(now > best)) {
        break;
      }
      best = now;
      scales = std::move(next);
      sums = std::move(next_sums);
      moved = true;
    }
    if (moved) {
      return;
    }
  }
}

}  // namespace mcnb
