#pragma once

#include <cmath>

#include "mcnb/base/state_file.h"

namespace mcnb {

// How fast rewards fade, where fits choose it: by whether the rewards since the last fit would have
// been more likely if those before it had counted half as much, or twice as much.
struct HalfLife {
  double rewards = 0.0;  // after which an older one counts half; 0: never
  // How much more likely, in logarithms, added up since the half-life was last changed.
  double for_shorter = 0.0;
  double for_longer = 0.0;

  bool is_sound() const {
    return rewards >= 0.0 && std::isfinite(rewards) && for_shorter >= 0.0 &&
           std::isfinite(for_shorter) && for_longer >= 0.0 && std::isfinite(for_longer);
  }

  using Stored = StoredInOrder<&HalfLife::rewards, &HalfLife::for_shorter, &HalfLife::for_longer>;
};

}  // namespace mcnb
