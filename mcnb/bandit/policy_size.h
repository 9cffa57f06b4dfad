#pragma once

#include <cstddef>

#include "mcnb/numeric/network_shape.h"

namespace mcnb {

/// What a policy will take, estimated from its options before it is made: right within a factor of
/// three, in general (tests/bandit/policy_size_test.cpp). Memory is in bytes. A double holds what
/// would overflow an integer.
struct PolicySize {
  double fixed_bytes = 0.0;  ///< of what all users share, after the first decision and reward
  double idle_bytes = 0.0;   ///< of each user without rewards
  double user_bytes = 0.0;   ///< that a user's first reward adds
  double event_bytes = 0.0;  ///< that each further reward adds, while histories grow
  double numbers = 0.0;      ///< to draw or fill when the policy is made
  /// Multiplications for the score of one arm, and how many more for each user with rewards.
  double arm_operations = 0.0;
  double arm_user_operations = 0.0;
  double most_arm_users = 1e300;  ///< that add to it

  double bytes(double users, double rewarded_users, double rewards) const;
  /// On one core of an ordinary machine.
  double seconds_to_make() const;
  double seconds_of_arm(double rewarded_users) const;
};

/// Bytes of a ridge state of so many dimensions (numeric/ridge.h).
double ridge_bytes(double dimension);
/// Bytes of an event in a history (history.h).
double history_event_bytes(double features);
/// A policy with one network for all users and its history (neural_model.h), with Z in full or as a
/// diagonal, or without Z.
enum class NetworkUncertainty { kNone, kDiagonal, kFull };
PolicySize network_policy_size(const NetworkShape& shape, NetworkUncertainty uncertainty);

}  // namespace mcnb
