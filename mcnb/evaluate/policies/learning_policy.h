#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mcnb/bandit/policies.h"
#include "mcnb/evaluate/estimate/intervals.h"
#include "mcnb/evaluate/policies/log_users.h"
#include "mcnb/evaluate/policies/target_policies.h"

namespace mcnb {

// A policy that learns from the log as it goes, and what it would have earned meanwhile. The rounds
// depend on each other through what it has learned, so no bootstrap of rounds applies; a confidence
// sequence does.
class LearningPolicy {
 public:
  enum class Method {
    // Keeps a round if the policy chooses the logged action, with the probability least / p, where
    // p is that of the logged action and `least` the least in the log: of the rounds kept, every
    // action was then equally likely, as if the policy had played them itself (Li et al. 2011 where
    // the log is uniform, rejection sampling elsewhere). The policy learns the kept rounds only.
    kReplay,
    // Estimates in every round what the policy, as it then is, would earn: w r with w = 1 / p if it
    // chooses the logged action and 0 otherwise. The policy learns every logged reward. So it is
    // the value of a policy that learns from the log's choices, not from its own.
    kProgressive,
  };

  // `least`: the least probability of a logged action, for kReplay. Rewards are expected from
  // `range`. Borrows the threads.
  LearningPolicy(Method method, PolicySpec spec, double least, std::uint64_t seed,
                 ThreadPool& threads, Interval range = {0.0, 1.0});

  // Rounds come in the order of the log, with features and a reward.
  void play(const RoundView& view);

  Method method() const { return method_; }
  std::uint64_t rounds() const { return rounds_; }
  std::uint64_t kept() const { return kept_; }  // kReplay; otherwise rounds whose weight is not 0
  // The mean reward of the kept rounds, or of w r over all rounds; NaN without any.
  double value() const;
  // A 95 % confidence sequence of what the policy, as it was in each of these rounds, would earn on
  // average. Nothing if a reward left its range or an event had several rounds.
  std::optional<Interval> anytime() const;

 private:
  Method method_;
  PolicySpec spec_;
  double least_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  std::unique_ptr<Policy> policy_;  // made at the first round, when the features are known
  LogUsers users_;
  std::uint64_t rounds_ = 0;
  std::uint64_t kept_ = 0;
  double sum_ = 0.0;
  double sample_weights_ = 0.0;
  Interval range_;
  std::optional<ConfidenceSequence> sequence_;
};

}  // namespace mcnb
