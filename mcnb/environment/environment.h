#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// One sample known about a user before the first round.
struct StartDatum {
  UserId user{};
  Sample sample;  // borrows from the environment
};

// Where rounds and rewards come from. Everything random is addressed by the environment's seed, the
// round and the arm: every policy meets the same rounds, and the same reward if it makes the same
// choice. One object serves one run; not to be shared between threads.
class Environment {
 public:
  virtual ~Environment() = default;

  virtual std::size_t user_count() const = 0;
  // Length of the feature vectors (with blocks: of the whole, mostly zero vector).
  virtual std::uint32_t inputs() const = 0;

  // What it is made of and what was left out, for people; empty where there is nothing to say.
  virtual std::string description() const { return {}; }
  // Where every arm's features are a block of one length, at a multiple of it: that length; else 0.
  virtual std::uint32_t block_length() const { return 0; }

  // Where known: what the users look like, user by user, `user_feature_count()` numbers each.
  virtual std::span<const float> user_features() const { return {}; }
  virtual std::size_t user_feature_count() const { return 0; }

  // One sample of every user.
  virtual std::span<const StartDatum> start_data() const = 0;

  // Makes the next round; it and what it borrows live until the next call. Ids count from 0.
  virtual const Round& next_round() = 0;

  // About the arms of the round made last.
  virtual float reward(ArmIndex arm) const = 0;            // as a policy sees it, in [0, 1]
  virtual double expected_reward(ArmIndex arm) const = 0;  // without the noise

  // True where the environment knows who truly agrees about an arm.
  virtual bool knows_clusters() const { return false; }
  // Then: who agrees with the arm's user about this arm of the round made last, ascending; nobody
  // where it is not known of this arm.
  virtual std::vector<UserId> true_cluster(ArmIndex) const { return {}; }
  // And the true group of every user for this arm (to compare partitions).
  virtual std::vector<std::uint32_t> true_groups(ArmIndex) const { return {}; }
};

}  // namespace mcnb
