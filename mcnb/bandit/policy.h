#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/device.h"
#include "mcnb/base/error.h"
#include "mcnb/base/ids.h"
#include "mcnb/base/options.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

inline constexpr ItemId kNoItem{0xffffffffU};
inline constexpr std::size_t kMostArms = 10'000;
inline constexpr float kLargestReward = 1e6F;  ///< rewards beyond +-1e6 are refused

/// One thing that can be chosen. Borrows its features.
struct Arm {
  ArmIndex index{};       ///< its position in the round
  UserId user{};          ///< recommendation: one user for all arms; classification: one per class
  ItemId item = kNoItem;  ///< kNoItem if items have no identity
  Features features = {};
};

/// What a policy chooses from. The id addresses every random draw of the decision, so that late
/// feedback can repeat the draws.
struct Round {
  RoundId id{};
  std::vector<Arm> arms = {};
};

/// One named part of a score, such as {"uncertainty", 0.2}. Most parts are added to the estimate. A
/// part with `in_estimate` is one of those that the estimate is the sum of.
struct ScorePart {
  const char* name = "";  ///< a string literal
  double value = 0.0;
  bool in_estimate = false;
};

/// How a policy that does not look at all users has estimated the size of a cluster.
struct ClusterSample {
  std::size_t found = 0;    ///< users of the cluster that it met
  std::size_t visited = 0;  ///< users that it looked at
};

/// Why an arm ranks where it does: value = estimate + the parts outside the estimate, added in
/// their order. Each policy names its own parts, and gives all its scores the same names in the
/// same order.
class Score {
 public:
  static constexpr std::size_t kMostParts = 4;

  Score() = default;
  explicit Score(double expected_reward, std::initializer_list<ScorePart> parts = {},
                 std::size_t cluster = 1);

  std::span<const ScorePart> parts() const { return {parts_.data(), part_count_}; }
  /// Requires that the score has a part of this name.
  double part(std::string_view name) const;

  double value = 0.0;            ///< what `choose` compares
  double estimate = 0.0;         ///< expected reward
  std::size_t cluster_size = 1;  ///< users (or groups that act as one) the estimate draws on
  bool considered = true;        ///< false if pre-selection left the arm out: never chosen
  std::optional<ClusterSample> cluster_sample = {};  ///< if set, cluster_size is estimated from it

 private:
  std::array<ScorePart, kMostParts> parts_{};
  std::size_t part_count_ = 0;
};

/// The reward of an arm of an earlier round.
struct RewardedArm {
  RoundId round{};
  Arm arm;
  float reward = 0.0F;
};

/// A reward of a batch that `learn` refused, and why.
struct Refusal {
  std::size_t index = 0;  ///< in the batch
  Error why;
};

/// How much a policy has computed, for fair comparisons. A step is one sample's backward pass.
struct StepCounts {
  std::uint64_t training = 0;
  std::uint64_t adaptation = 0;

  using Stored = StoredInOrder<&StepCounts::training, &StepCounts::adaptation>;
};

/// Seconds that the parts of all rounds so far took, as the paper divides a round.
struct PartSeconds {
  double clustering = 0.0;  ///< estimates of all users for all arms, and who agrees
  double adaptation = 0.0;  ///< of the meta-learner to every arm's cluster, and to the feedback
  double training = 0.0;    ///< of user-learners on feedback, and histories
};

/// Slow work that a policy wants done beside its rounds, such as empirical Bayes over all rewards
/// so far. It shares what it needs with its policy and may outlive it, which ends it early.
class BackgroundFit {
 public:
  virtual ~BackgroundFit() = default;
  /// May be called on any thread, while the policy goes on with decisions and rewards. What it
  /// finds depends only on the rewards before `begin_fit`.
  virtual void run() = 0;
  /// What `run` found, to be kept; empty if the fit was ended early. Requires that `run` returned.
  virtual std::string result() const = 0;
};

/// Chooses arms and learns from rewards.
///
/// A new policy derives from BasicPolicy (basic_policy.h), writes the five functions marked (must),
/// and overrides others only where it can do better than their defaults.
///
/// Feedback may come at once, late, in another order, or never. Equal options, seeds and calls give
/// equal choices, on any number of threads, and across save and load at any point. Calls must not
/// overlap. Bad rounds and rewards are refused (Error, kInput) before anything changes. Rewards are
/// finite, mostly in [0, 1], and never beyond kLargestReward. With its default options no policy
/// leaves the finite numbers on arms of lengths up to 1e6: a step that would is damped
/// (numeric/damped_step.h). What no damping helps, such as arms without a finite value, is refused
/// too, and the networks stay as they were.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::size_t user_count() const = 0;
  /// New users may come at any time; their ids go up from user_count().
  virtual void add_users(std::size_t count) = 0;

  /// One sample known about a user before the first round. Every policy of a comparison gets the
  /// same samples; a live service has none.
  virtual void start(UserId user, const Sample& sample) = 0;

  /// Returns the arm with the highest score; ties go to the lowest index.
  virtual ArmIndex choose(const Round& round);

  /// (must) The scores that `choose` would compare now, by arm.
  virtual std::vector<Score> scores(const Round& round) = 0;

  /// `scores` of many rounds, all for the present state. A policy may override it to pass over its
  /// learners once for all rounds.
  virtual std::vector<std::vector<Score>> scores_of(std::span<const Round> rounds);

  /// The scores of a round whose arms have one user can be found in parts, with the same bits: of
  /// some arms, a multiple of so many and the rest at the end. 0: only of all arms together.
  virtual std::size_t arms_apart() const { return 0; }
  /// The scores of the arms from `begin` to before `end`. Requires that arms_apart() divides
  /// `begin` and, unless it is the number of arms, `end`. The default asks `scores` about a round
  /// of these arms, which is right for policies that never look at an arm's index.
  virtual std::vector<Score> scores_of_part(const Round& round, std::size_t begin, std::size_t end);

  /// The users whom the policy now takes to agree about an arm, in ascending order; nullopt for
  /// policies that do not cluster.
  virtual std::optional<std::vector<UserId>> cluster(const Arm&) { return std::nullopt; }

  /// (must) Learns the reward of an arm of an earlier round.
  virtual void learn(RoundId round, const Arm& arm, float reward) = 0;

  /// Calls `learn` for each, in order: the state does not depend on how the rewards are grouped.
  /// Skips those that `learn` refuses, and returns them by ascending index.
  virtual std::vector<Refusal> learn_all(std::span<const RewardedArm> rewarded);

  /// Resets a user: its own learner and history are dropped; what shared learners took
  /// from it stays. Returns false, and changes nothing, if the policy cannot tell users apart.
  virtual bool forget(UserId) { return false; }

  /// Fits beside the rounds, for policies made with PolicySetup::fits_beside. When a fit is due,
  /// the owner calls `begin_fit`, runs the result on a thread of its choice, and hands what it
  /// found to `finish_fit`. The state depends only on when these two are called among the other
  /// calls.
  virtual bool fit_is_due() const { return false; }
  /// True from `begin_fit` to `finish_fit`. `forget` ends a fit without a result.
  virtual bool fit_in_progress() const { return false; }
  /// Begins a fit of all rewards so far, or returns the one in progress, also after `load`.
  virtual std::shared_ptr<BackgroundFit> begin_fit() { return nullptr; }
  /// Installs what the fit in progress found, in slices with later rewards. An empty result ends
  /// the fit without effect. Throws Error (kCorrupt) for a result that does not fit this policy.
  virtual void finish_fit(std::string_view /*result*/) {}

  virtual StepCounts steps() const { return {}; }
  /// nullopt for policies that do not measure the parts of a round.
  virtual std::optional<PartSeconds> part_seconds() const { return std::nullopt; }
  /// (must)
  virtual std::size_t memory_bytes() const = 0;

  /// (must) Bit-exact. `load` expects a policy made with the setup and options of the saved one. If
  /// it throws (Error, kCorrupt), the policy is in an undefined state.
  virtual void save(StateWriter& writer) const = 0;
  virtual void load(StateReader& reader) = 0;
};

/// What a policy is made for.
struct PolicySetup {
  std::uint32_t inputs = 0;  ///< length of the (possibly long and mostly zero) feature vectors
  std::size_t users = 1;
  std::uint64_t seed = 1;
  ThreadPool* threads = nullptr;  ///< borrowed, outlives the policy; nullptr: the caller's thread
  /// The features of the users, `user_feature_count` numbers for each; empty if unknown.
  std::span<const float> user_features = {};
  std::size_t user_feature_count = 0;
  /// If each arm's features are one block of a longer vector, at a multiple of the block's length:
  /// that length. 0 if arms have whole vectors, or if it is unknown.
  std::uint32_t block_length = 0;
  /// True if the owner calls `begin_fit` and `finish_fit`. Otherwise a policy that fits its rewards
  /// now and then does so inside `learn`, which may take long.
  bool fits_beside = false;
  /// Only mcnb can compute on a GPU; a saved state does not depend on the device.
  Device device = Device::kCpu;
};

/// These throw Error (kInput), which names the round, arm or user, for input that a policy cannot
/// take: no arms or more than kMostArms, wrong indices, unknown users, features that do not fit the
/// shape, numbers that are not finite, rewards beyond kLargestReward.
void check_round(const Round& round, std::size_t users, const NetworkShape& shape);
void check_feedback(RoundId round, const Arm& arm, float reward, std::size_t users,
                    const NetworkShape& shape);
void check_start(UserId user, const Sample& sample, std::size_t users, const NetworkShape& shape);
/// Checks an arm outside any round.
void check_arm(const Arm& arm, std::size_t users, const NetworkShape& shape);

/// The index of the highest value among the considered scores; ties go to the lowest index.
ArmIndex highest(std::span<const Score> scores);

}  // namespace mcnb
