#include "mcnb/bandit/policy_size.h"

#include <algorithm>

namespace mcnb {
namespace {

constexpr double kSecondsPerNumber = 15e-9;     // drawn from a normal distribution and stored
constexpr double kSecondsPerOperation = 2e-10;  // in the kernels
constexpr double kSecondsPerArm = 3e-7;         // whatever the policy
constexpr double kReference = 6.0;              // bytes in a history, with room to grow
constexpr double kSlot = 24.0;                  // of an event beside its features

}  // namespace

double PolicySize::bytes(double users, double rewarded_users, double rewards) const {
  return fixed_bytes + users * idle_bytes + rewarded_users * user_bytes +
         (rewards > rewarded_users ? (rewards - rewarded_users) * event_bytes : 0.0);
}

double PolicySize::seconds_to_make() const { return numbers * kSecondsPerNumber; }

double PolicySize::seconds_of_arm(double rewarded_users) const {
  return kSecondsPerArm +
         kSecondsPerOperation *
             (arm_operations + std::min(rewarded_users, most_arm_users) * arm_user_operations);
}

double ridge_bytes(double dimension) {
  constexpr double kState = 300.0;
  constexpr double kVectors = 2.0;  // M's sum and weights
  // Two matrices, whole or as halves with the updates that wait (32 vectors).
  const double matrices =
      dimension <= 64.0 ? 2.0 * dimension * dimension : dimension * dimension + 40.0 * dimension;
  return kState + 8.0 * (matrices + kVectors * dimension);
}

double history_event_bytes(double features) { return 4.0 * features + kSlot + kReference; }

PolicySize network_policy_size(const NetworkShape& shape, NetworkUncertainty uncertainty) {
  const auto parameters = static_cast<double>(shape.parameter_count());
  PolicySize size;
  // The network, the one before a training, and the two moments of Adam.
  size.fixed_bytes = 2000.0 + 4.0 * 3.0 * parameters;
  size.event_bytes = history_event_bytes(shape.inputs);
  size.numbers = parameters;
  size.arm_operations = parameters;
  if (uncertainty == NetworkUncertainty::kDiagonal) {
    size.fixed_bytes += 8.0 * parameters;
    size.arm_operations += 3.0 * parameters;
  } else if (uncertainty == NetworkUncertainty::kFull) {
    size.fixed_bytes += 8.0 * (parameters * parameters + 40.0 * parameters);
    size.numbers += parameters * parameters;
    size.arm_operations += 0.5 * parameters * parameters;
  }
  return size;
}

}  // namespace mcnb
