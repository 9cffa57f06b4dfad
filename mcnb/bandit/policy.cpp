#include "mcnb/bandit/policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/input_names.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// The texts of errors begin with where(), which is only called for an error.
template <class Where>
void check_user(Where where, UserId user, std::size_t users) {
  if (index(user) >= users) {
    throw Error(ErrorKind::kInput, fmt::format("{}: user {} is unknown, there are {} users",
                                               where(), index(user), users));
  }
}

bool sample_fits(const NetworkShape& shape, const Sample& sample) {
  return features_fit(shape, sample.features) && std::isfinite(sample.reward) &&
         all_finite(sample.features.values);
}

template <class Where>
void check_sample_at(Where where, const Sample& sample, const NetworkShape& shape) {
  if (!sample_fits(shape, sample)) {
    check_sample(shape, sample, where());
  }
  if (std::abs(sample.reward) > kLargestReward) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the reward is {}, expected a number from {} to {}", where(),
                            sample.reward, -kLargestReward, kLargestReward));
  }
}

template <class Where>
void check_arm_at(Where where, const Arm& arm, float reward, std::size_t users,
                  const NetworkShape& shape) {
  if (index(arm.index) >= kMostArms) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected an arm index below {}", where(), kMostArms));
  }
  check_user(where, arm.user, users);
  check_sample_at(where, {arm.features, reward}, shape);
}

}  // namespace

void check_round(const Round& round, std::size_t users, const NetworkShape& shape) {
  const std::size_t count = round.arms.size();
  if (count == 0 || count > kMostArms) {
    throw Error(ErrorKind::kInput, fmt::format("round {}: expected 1 to {} arms, got {}",
                                               index(round.id), kMostArms, count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto where = [&] { return arm_name(round.id, i); };
    const Arm& arm = round.arms[i];
    if (index(arm.index) != i) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected the index {}, got {}", where(), i, index(arm.index)));
    }
    check_user(where, arm.user, users);
    check_sample_at(where, {arm.features, 0.0F}, shape);
  }
}

void check_feedback(RoundId round, const Arm& arm, float reward, std::size_t users,
                    const NetworkShape& shape) {
  const auto where = [&] { return feedback_name(round, arm); };
  check_arm_at(where, arm, reward, users, shape);
}

void check_arm(const Arm& arm, std::size_t users, const NetworkShape& shape) {
  const auto where = [&] { return fmt::format("arm {}", index(arm.index)); };
  check_arm_at(where, arm, 0.0F, users, shape);
}

void check_start(UserId user, const Sample& sample, std::size_t users, const NetworkShape& shape) {
  const auto where = [&] { return start_name(user); };
  check_user(where, user, users);
  check_sample_at(where, sample, shape);
}

Score::Score(double expected_reward, std::initializer_list<ScorePart> parts, std::size_t cluster)
    : value(expected_reward),
      estimate(expected_reward),
      cluster_size(cluster),
      part_count_(parts.size()) {
  check(parts.size() <= kMostParts, "a score has at most kMostParts parts");
  std::ranges::copy(parts, parts_.begin());
  for (const ScorePart& part : parts) {
    value += part.in_estimate ? 0.0 : part.value;
  }
}

double Score::part(std::string_view name) const {
  const auto found = std::ranges::find(parts(), name, &ScorePart::name);
  check(found != parts().end(), "the score has a part of this name");
  return found->value;
}

ArmIndex Policy::choose(const Round& round) { return highest(scores(round)); }

std::vector<std::vector<Score>> Policy::scores_of(std::span<const Round> rounds) {
  std::vector<std::vector<Score>> all;
  all.reserve(rounds.size());
  for (const Round& round : rounds) {
    all.push_back(scores(round));
  }
  return all;
}

std::vector<Score> Policy::scores_of_part(const Round& round, std::size_t begin, std::size_t end) {
  check(begin < end && end <= round.arms.size(), "a part of a round has some of its arms");
  Round part{.id = round.id, .arms = {}};
  for (std::size_t i = begin; i < end; ++i) {
    part.arms.push_back(round.arms[i]);
    part.arms.back().index = ArmIndex{static_cast<std::uint32_t>(i - begin)};
  }
  return scores(part);
}

std::vector<Refusal> Policy::learn_all(std::span<const RewardedArm> rewarded) {
  std::vector<Refusal> refused;
  for (std::size_t i = 0; i < rewarded.size(); ++i) {
    try {
      learn(rewarded[i].round, rewarded[i].arm, rewarded[i].reward);
    } catch (const Error& error) {
      refused.push_back({i, error});
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
