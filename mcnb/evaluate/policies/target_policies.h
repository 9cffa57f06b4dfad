#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mcnb/base/thread_pool.h"
#include "mcnb/logs/logged_round.h"

namespace mcnb {

// A round of a log, with the numbers that its features become.
struct RoundView {
  std::uint64_t number = 0;  // in the order of the log
  const LoggedRound& round;
  std::span<const float> features;  // of all actions, one after the other; empty if nobody asks
};

// A policy that does not change while it is evaluated: what it would do in each round.
class TargetPolicy {
 public:
  virtual ~TargetPolicy() = default;

  virtual bool needs_features() const { return false; }
  // Fills in the probability of every action of the round; they add up to 1. Throws Error (kInput)
  // for a round that the policy cannot take.
  virtual void probabilities(const RoundView& view, std::span<double> actions) = 0;
};

// The policy of this name:
//   random         every eligible action is equally likely
//   first          the first eligible action
//   action=ID      always the action with this id, or of this number where actions have no ids;
//                  where it is not eligible, every eligible action is equally likely
//   state=FILE     the policy that save_policy_file or LogTraining saved, as it would choose;
//                  state=FILE:EXPLORATION: otherwise (parse_exploration)
//   frequency=LOG  as often as this log chose it, slot by slot (FrequencyTarget)
// Borrows the threads. Throws Error (kUsage) for any other name, and what reading the file throws.
std::unique_ptr<TargetPolicy> make_target_policy(const std::string& name, ThreadPool& threads);

// Makes every eligible action equally likely.
void set_uniform(const LoggedRound& round, std::span<double> actions);

}  // namespace mcnb
