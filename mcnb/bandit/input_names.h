#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// How error messages name what a policy was given.

inline std::string arm_name(RoundId round, std::size_t arm) {
  return fmt::format("round {}, arm {}", index(round), arm);
}

inline std::string feedback_name(RoundId round, const Arm& arm) {
  return "feedback on " + arm_name(round, index(arm.index));
}

inline std::string start_name(UserId user) { return fmt::format("start of user {}", index(user)); }

}  // namespace mcnb
