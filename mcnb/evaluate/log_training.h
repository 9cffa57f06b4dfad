#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/evaluate/estimate/round_features.h"
#include "mcnb/evaluate/evaluation.h"
#include "mcnb/evaluate/policies/log_users.h"

namespace mcnb {

// How often a policy learns a logged reward: once, or as often as the importance weight of its
// round says. That weight is 1 / (K p), cut at `most`, for K eligible actions and the probability p
// of the logged one, times 1 / (1 - drop probability): 1 everywhere in a uniform log. So the policy
// learns as if every action had been equally likely. Parts of a weight are drawn: 1.4 is once, and
// twice with the probability 0.4.
struct TrainingWeights {
  bool importance = false;
  double most = 10.0;
};

struct LogTrainingOptions {
  PolicySpec policy;
  std::uint64_t dimension = 64;  // of hashed features
  std::uint64_t seed = 1;
  TrainingWeights weights;
};

struct TrainingCounts {
  std::uint64_t rounds = 0;    // that were learned from
  std::uint64_t lessons = 0;   // rewards that the policy learned; differs with weights
  std::uint64_t excluded = 0;  // rounds marked as not to be learned
  std::uint64_t unrewarded = 0;
};

// Teaches a policy the round of a view, which has features and a reward; the id of the round is
// the number of the view. Returns how often.
std::uint64_t learn_round(Policy& policy, LogUsers& users, const RoundView& view,
                          const TrainingWeights& weights, std::uint64_t seed);

// A policy that learns a log, perhaps several times. Users of the log have names. Results do not
// depend on the number of threads.
class LogTraining {
 public:
  // Borrows the threads.
  LogTraining(LogTrainingOptions options, ThreadPool& threads);
  // Goes on where a saved policy stopped; of the options only the weights and the seed count, and
  // `dimension` is that of the policy. Throws Error (kUsage) for a policy whose users have no
  // names, unless it has one user.
  LogTraining(SavedPolicy saved, LogTrainingOptions options, ThreadPool& threads);

  // Called after each round; ends the pass by returning false.
  using GoesOn = std::function<bool(const TrainingCounts& counts)>;
  // Learns the rounds of the log once. Returns false if `goes_on` ended it; the policy has then
  // learned the rounds before. Throws Error (kInput) for a log without rewards.
  bool pass(const ReadRounds& read, const GoesOn& goes_on);

  // Of all passes.
  const TrainingCounts& counts() const { return counts_; }
  std::size_t user_count() const { return users_.names().size(); }
  // Requires a pass. Saves the policy with the names of its users.
  void save(const std::string& path) const;

 private:
  void make_policy_for(std::size_t inputs);
  void learn(const LoggedRound& round, std::uint64_t number);

  LogTrainingOptions options_;
  ThreadPool& threads_;
  RoundFeatures features_;
  SavedPolicy state_;  // no policy until the features of the first round are known
  LogUsers users_;
  TrainingCounts counts_;
};

}  // namespace mcnb
