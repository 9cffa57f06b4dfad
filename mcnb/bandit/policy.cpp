#include "mcnb/bandit/policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

void check_user(const std::string& place, UserId user, std::size_t users) {
  if (index(user) >= users) {
    throw Error(ErrorKind::kInput, fmt::format("{}: user {} is unknown, there are {} users", place,
                                               index(user), users));
  }
}

void check_arm(const std::string& place, const Arm& arm, std::size_t users,
               const NetworkShape& shape) {
  check_user(place, arm.user, users);
  check_features(shape, arm.features, place);
}

// Whether an arm of a round is as it should be: without the words that an error takes.
bool is_good_arm(const Arm& arm, std::size_t place, std::size_t users, const NetworkShape& shape) {
  return index(arm.index) == place && index(arm.user) < users &&
         features_fit(shape, arm.features) &&
         std::ranges::all_of(arm.features.values, [](float value) { return std::isfinite(value); });
}

}  // namespace

void check_round(const Round& round, std::size_t users, const NetworkShape& shape) {
  const std::size_t count = round.arms.size();
  if (count == 0 || count > kMostArms) {
    throw Error(ErrorKind::kInput, fmt::format("round {}: expected 1 to {} arms, got {}",
                                               index(round.id), kMostArms, count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (is_good_arm(round.arms[i], i, users, shape)) {
      continue;
    }
    const std::string place = fmt::format("round {}, arm {}", index(round.id), i);
    if (index(round.arms[i].index) != i) {
      throw Error(ErrorKind::kInput, fmt::format("{}: expected the index {}, got {}", place, i,
                                                 index(round.arms[i].index)));
    }
    check_arm(place, round.arms[i], users, shape);
  }
}

void check_feedback(RoundId round, const Arm& arm, float reward, std::size_t users,
                    const NetworkShape& shape) {
  const std::string place =
      fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
  if (index(arm.index) >= kMostArms) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected an arm index below {}", place, kMostArms));
  }
  check_arm(place, arm, users, shape);
  check_sample(shape, {arm.features, reward}, place);
}

void check_start(UserId user, const Sample& sample, std::size_t users, const NetworkShape& shape) {
  const std::string place = fmt::format("start of user {}", index(user));
  check_user(place, user, users);
  check_sample(shape, sample, place);
}

ArmIndex highest(std::span<const Score> scores) {
  check(!scores.empty(), "a round has arms");
  const Score* best = nullptr;
  for (const Score& score : scores) {
    if (score.considered && (best == nullptr || score.value > best->value)) {
      best = &score;
    }
  }
  check(best != nullptr, "at least one arm is considered");
  return ArmIndex{static_cast<std::uint32_t>(best - scores.data())};
}

}  // namespace mcnb
