#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

/// One sample known about a user before the first round.
struct StartDatum {
  UserId user{};
  Sample sample = {};  ///< borrows from the environment
};

/// The source of rounds and rewards. Every random number is addressed by the environment's seed,
/// the round and the arm, so every policy gets the same rounds, and the same reward for the same
/// choice. One object serves one run; threads must not share it.
class Environment {
 public:
  virtual ~Environment() = default;

  virtual std::size_t user_count() const = 0;
  /// Length of the feature vectors; with blocks, of the whole vector.
  virtual std::uint32_t inputs() const = 0;

  /// Says in words what it is made of and what was left out; may be empty.
  virtual std::string description() const { return {}; }
  /// The length of blocks if every arm's features are a block of one length at a multiple of it;
  /// else 0.
  virtual std::uint32_t block_length() const { return 0; }

  /// Features of the users if they are known, `user_feature_count()` numbers per user; else empty.
  virtual std::span<const float> user_features() const { return {}; }
  virtual std::size_t user_feature_count() const { return 0; }

  /// One sample of every user.
  virtual std::span<const StartDatum> start_data() const = 0;

  /// Makes the next round, which is valid until the next call, as is what it borrows. Ids count
  /// from 0.
  virtual const Round& next_round() = 0;

  /// About an arm of the latest round.
  virtual float reward(ArmIndex arm) const = 0;            ///< as a policy sees it, in [0, 1]
  virtual double expected_reward(ArmIndex arm) const = 0;  ///< without the noise

  /// True if the environment knows which users truly agree about an arm.
  virtual bool knows_clusters() const { return false; }
  /// The users who agree with the arm's user about this arm of the latest round, ascending; empty
  /// if that is not known.
  virtual std::vector<UserId> true_cluster(ArmIndex) const { return {}; }
  /// The true group of every user for this arm of the latest round; empty if that is not known.
  virtual std::vector<std::uint32_t> true_groups(ArmIndex) const { return {}; }
};

}  // namespace mcnb
