#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/linear/linear_users.h"

namespace mcnb {

// A ridge state that speaks about an arm of a round; nothing (nullptr): M = lambda I and w = 0.
struct Opinion {
  ArmIndex arm;
  const RidgeState* ridge;
};

// Whether some arm's features are so many that x^T M^-1 x costs far more than x.w: then arms are
// better chosen as below than by all their scores.
bool has_long_features(const Round& round);

// The arm about which some opinion has the highest x.w + scale sqrt(x^T M^-1 x), of equal ones the
// lowest: what `highest` says of the scores, without the squares of arms that cannot win, since
// every value has bounds that cost little (RidgeState::bound). Requires scale >= 0, a round that
// was checked and an opinion at least; they may come in any order.
ArmIndex choose_by_bounds(const Round& round, std::span<const Opinion> opinions, double lambda,
                          double scale, ThreadPool& threads);

// The same where one state speaks about an arm: find_ridge(arm, block) gives it, or nothing.
template <class FindRidge>
ArmIndex choose_by_bounds(const Round& round, const LinearUsers& users, double scale,
                          ThreadPool& threads, FindRidge find_ridge) {
  std::vector<Opinion> opinions;
  opinions.reserve(round.arms.size());
  for (const Arm& arm : round.arms) {
    const std::optional<std::uint32_t> block = users.blocks().find(arm.features);
    opinions.push_back({arm.index, block ? find_ridge(arm, *block) : nullptr});
  }
  return choose_by_bounds(round, opinions, users.lambda(), scale, threads);
}

}  // namespace mcnb
