#pragma once

#include <cstdint>
#include <vector>

#include "mcnb/bandit/mcnb/mcnb.h"

// Users of M-CNB that were made, not learned, for benchmarks of its rounds.
namespace mcnb::bench {

inline constexpr std::uint32_t kFeatures = 10;
inline constexpr std::uint32_t kWidth = 100;
inline constexpr std::uint32_t kArms = 10;

std::vector<float> unit_vector(Rng& rng);

// Gives every user a network of its own. Over the users f(x) is roughly normal with this deviation.
// With groups, users of the same of so many groups agree about every x: only their gradients
// differ. Requires at most 64 groups.
void spread_users(NetworkPool& pool, double deviation, std::uint64_t groups = 0);

// Gives every user a history.
void fill_users(Mcnb& policy, Rng& rng);

// Says whether the machine has memory for the networks and histories of so many users; if not, a
// line on the standard error output says so, too.
bool have_room_for(std::uint64_t users);

}  // namespace mcnb::bench
