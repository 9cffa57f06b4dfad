#pragma once

#include <cstdint>

#include "mcnb/bandit/mcnb/mcnb_options.h"
#include "mcnb/bandit/mcnb/meta_learner.h"
#include "mcnb/bandit/policy.h"

namespace mcnb {

// The parts of M-CNB's scores, always with the same names.
Score mcnb_score(double estimate, double meta_bonus, double user_bonus, std::size_t cluster_size);

// U_i = f(x; Theta_i) + the uncertainty of Theta_i at x + the uncertainty about the user, whose
// learner was trained so often. Throws Error (kInput) if that is not finite.
Score upper_bound(const McnbOptions& options, const AdaptedMeta& meta, std::uint32_t trained,
                  std::size_t cluster_size);

}  // namespace mcnb
