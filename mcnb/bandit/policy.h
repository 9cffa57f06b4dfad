#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/ids.h"
#include "mcnb/base/options.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

inline constexpr ItemId kNoItem{0xffffffffU};
inline constexpr std::size_t kMostArms = 10'000;
inline constexpr float kLargestReward = 1e6F;  // beyond it, below zero too, they are refused

// One thing that can be chosen: for whom, what, and what it looks like. Borrows its features.
struct Arm {
  ArmIndex index{};  // its position in the round
  UserId user{};     // in recommendation the same for all arms, in classification one per class
  ItemId item = kNoItem;  // where items have an identity
  Features features;
};

// What a policy chooses from. The id addresses every random draw of the decision, so feedback that
// comes later can repeat them.
struct Round {
  RoundId id{};
  std::vector<Arm> arms;
};

// Why an arm stands where it does: value = estimate + meta_bonus + user_bonus.
struct Score {
  double value = 0.0;
  double estimate = 0.0;         // expected reward
  double meta_bonus = 0.0;       // uncertainty of the shared model at this arm
  double user_bonus = 0.0;       // uncertainty because little is known of the user
  std::size_t cluster_size = 1;  // users (or groups that act as one) the estimate draws on
  bool considered = true;        // false where pre-selection left the arm out: never chosen
};

// The reward of an arm of an earlier round.
struct RewardedArm {
  RoundId round{};
  Arm arm;
  float reward = 0.0F;
};

// How much a policy has computed, for fair comparisons. A step is one sample's backward pass.
struct StepCounts {
  std::uint64_t training = 0;
  std::uint64_t adaptation = 0;
};

// Chooses arms and learns from rewards.
//
// Feedback may come at once, late, in another order, or never. The same options, seed and calls
// give the same choices, on any number of threads, and across save and load at any point. Calls
// must not overlap. Bad rounds and rewards are refused (Error, kInput) before anything changes;
// rewards are real numbers, mostly in [0, 1], and at most kLargestReward. A step or training that
// would take a network out of the finite numbers is refused likewise, the network stays as it was.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::size_t user_count() const = 0;
  // New users may come at any time; ids go up from user_count().
  virtual void add_users(std::size_t count) = 0;

  // One sample known about a user before the first round. Every policy of a comparison gets the
  // same; a live service has none.
  virtual void start(UserId user, const Sample& sample) = 0;

  // The arm with the highest score; ties go to the lowest index.
  virtual ArmIndex choose(const Round& round) = 0;

  // The scores that `choose` would compare now.
  virtual std::vector<Score> scores(const Round& round) = 0;

  // `scores` of many rounds that all meet the present state: where a policy can, in one pass over
  // its learners.
  virtual std::vector<std::vector<Score>> scores_of(std::span<const Round> rounds);

  // The users whom the policy, now, takes to agree about an arm, in ascending order; nothing for
  // policies that do not cluster.
  virtual std::optional<std::vector<UserId>> cluster(const Arm&) { return std::nullopt; }

  // The reward of an arm of an earlier round.
  virtual void learn(RoundId round, const Arm& arm, float reward) = 0;

  // `learn` of many, one after the other: the same state, bit for bit, however they are grouped.
  // Passes over those that `learn` refuses, and returns how many they were.
  virtual std::size_t learn_all(std::span<const RewardedArm> rewarded);

  // Makes a user as good as new: its own learner and history leave the state; what shared learners
  // took from it stays. False, and nothing has changed, where the policy cannot tell them apart.
  virtual bool forget(UserId) { return false; }

  virtual StepCounts steps() const { return {}; }
  virtual std::size_t memory_bytes() const = 0;

  // Bit-exact. `load` expects a policy made with the same setup and options as the saved one, and
  // leaves it in an undefined state when it throws (Error, kCorrupt).
  virtual void save(StateWriter& writer) const = 0;
  virtual void load(StateReader& reader) = 0;
};

// What a policy is made for.
struct PolicySetup {
  std::uint32_t inputs = 0;  // length of the (possibly long and mostly zero) feature vectors
  std::size_t users = 1;
  std::uint64_t seed = 1;
  ThreadPool* threads = nullptr;  // borrowed; must outlive the policy
  // Where known: what the users look like, user by user, `user_feature_count` numbers each.
  std::span<const float> user_features;
  std::size_t user_feature_count = 0;
  // Where every arm's features are a block, all of one length, at a multiple of it: that length.
  // 0: arms have whole vectors, or nobody knows.
  std::uint32_t block_length = 0;
};

// Throws Error (kInput) naming the round and the arm unless there are 1 to kMostArms arms, with
// their indices, known users, and features that fit.
void check_round(const Round& round, std::size_t users, const NetworkShape& shape);
void check_feedback(RoundId round, const Arm& arm, float reward, std::size_t users,
                    const NetworkShape& shape);
void check_start(UserId user, const Sample& sample, std::size_t users, const NetworkShape& shape);
// An arm alone, of no round.
void check_arm(const Arm& arm, std::size_t users, const NetworkShape& shape);

// The place of the highest value among those considered; ties go to the lowest index.
ArmIndex highest(std::span<const Score> scores);

}  // namespace mcnb
