#include "mcnb/bandit/policy.h"

#include <fmt/core.h>

#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// The texts of errors name the place; place() makes its name only where it is needed.
template <class Place>
void check_user(Place place, UserId user, std::size_t users) {
  if (index(user) >= users) {
    throw Error(ErrorKind::kInput, fmt::format("{}: user {} is unknown, there are {} users",
                                               place(), index(user), users));
  }
}

bool sample_fits(const NetworkShape& shape, const Sample& sample) {
  return features_fit(shape, sample.features) && std::isfinite(sample.reward) &&
         all_finite(sample.features.values);
}

template <class Place>
void check_sample_at(Place place, const Sample& sample, const NetworkShape& shape) {
  if (!sample_fits(shape, sample)) {
    check_sample(shape, sample, place());
  }
  if (std::abs(sample.reward) > kLargestReward) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the reward is {}, expected a number from {} to {}", place(),
                            sample.reward, -kLargestReward, kLargestReward));
  }
}

template <class Place>
void check_arm_at(Place place, const Arm& arm, float reward, std::size_t users,
                  const NetworkShape& shape) {
  if (index(arm.index) >= kMostArms) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected an arm index below {}", place(), kMostArms));
  }
  check_user(place, arm.user, users);
  check_sample_at(place, {arm.features, reward}, shape);
}

}  // namespace

void check_round(const Round& round, std::size_t users, const NetworkShape& shape) {
  const std::size_t count = round.arms.size();
  if (count == 0 || count > kMostArms) {
    throw Error(ErrorKind::kInput, fmt::format("round {}: expected 1 to {} arms, got {}",
                                               index(round.id), kMostArms, count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = [&] { return fmt::format("round {}, arm {}", index(round.id), i); };
    const Arm& arm = round.arms[i];
    if (index(arm.index) != i) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected the index {}, got {}", place(), i, index(arm.index)));
    }
    check_user(place, arm.user, users);
    check_sample_at(place, {arm.features, 0.0F}, shape);
  }
}

void check_feedback(RoundId round, const Arm& arm, float reward, std::size_t users,
                    const NetworkShape& shape) {
  const auto place = [&] {
    return fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
  };
  check_arm_at(place, arm, reward, users, shape);
}

void check_arm(const Arm& arm, std::size_t users, const NetworkShape& shape) {
  const auto place = [&] { return fmt::format("arm {}", index(arm.index)); };
  check_arm_at(place, arm, 0.0F, users, shape);
}

void check_start(UserId user, const Sample& sample, std::size_t users, const NetworkShape& shape) {
  const auto place = [&] { return fmt::format("start of user {}", index(user)); };
  check_user(place, user, users);
  check_sample_at(place, sample, shape);
}

std::vector<std::vector<Score>> Policy::scores_of(std::span<const Round> rounds) {
  std::vector<std::vector<Score>> all;
  all.reserve(rounds.size());
  for (const Round& round : rounds) {
    all.push_back(scores(round));
  }
  return all;
}

std::size_t Policy::learn_all(std::span<const RewardedArm> rewarded) {
  std::size_t refused = 0;
  for (const RewardedArm& one : rewarded) {
    try {
      learn(one.round, one.arm, one.reward);
    } catch (const Error&) {
      ++refused;
    }
  }
  return refused;
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
