#include "mcnb/bandit/mcnb/upper_bound.h"

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/mcnb/divergence.h"

namespace mcnb {
namespace {

// A user without any training has the bonus of one training.
double user_bonus(const McnbOptions& options, std::uint32_t trainings) {
  const double trained = std::max<std::uint32_t>(trainings, 1);
  return std::sqrt((options.s + 1.0) / (2.0 * trained)) +
         std::sqrt(2.0 * std::log(1.0 / options.delta) / trained);
}

}  // namespace

Score mcnb_score(double estimate, double meta_bonus, double user_bonus, std::size_t cluster_size) {
  return Score(estimate, {{"meta", meta_bonus}, {"user", user_bonus}}, cluster_size);
}

Score upper_bound(const McnbOptions& options, const AdaptedMeta& meta, std::uint32_t trained,
                  std::size_t cluster_size) {
  const double root = std::sqrt(std::sqrt(static_cast<double>(options.network.width)));  // m^(1/4)
  const double estimate =
      options.nonnegative ? std::max(0.0, double{meta.estimate}) : meta.estimate;
  const Score bound = mcnb_score(estimate, options.exploration * meta.gradient_move / root,
                                 options.exploration * user_bonus(options, trained), cluster_size);
  if (!std::isfinite(bound.value)) {
    refuse_diverged("the meta-learner", "eta_2", options.eta_2);
  }
  return bound;
}

}  // namespace mcnb
