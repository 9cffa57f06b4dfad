#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/evaluate/estimate/estimators.h"
#include "mcnb/evaluate/estimate/intervals.h"
#include "mcnb/evaluate/estimate/log_health.h"
#include "mcnb/evaluate/policies/learning_policy.h"
#include "mcnb/logs/logged_round.h"

namespace mcnb {

// What models the rewards, for the direct method and the doubly robust estimators.
enum class RewardModel { kRidge, kNetwork };
// "ridge" or "network". Throws Error (kUsage).
RewardModel parse_reward_model(const std::string& name);

struct EvaluationOptions {
  // Those of make_target_policy and `own`, and "replay=POLICY" and "progressive=POLICY".
  std::vector<std::string> policies;
  std::map<std::string, TargetPolicy*> own = {};  // further policies by name, borrowed
  std::string baseline = "logged";  // or a fixed policy: what the others are compared with
  std::vector<Estimator> estimators = {kEveryEstimator.begin(), kEveryEstimator.end()};
  std::uint64_t dimension = 64;  // of hashed features
  RewardModel model = RewardModel::kRidge;
  double lambda = 1.0;              // of the ridge regressions
  std::uint64_t replicates = 1000;  // of the bootstrap
  std::uint64_t seed = 1;
  double lowest_reward = 0.0;  // the range that rewards can have
  double highest_reward = 1.0;
};

// The value of one policy by one estimator.
struct PolicyEstimate {
  Estimator estimator{};
  double value = 0.0;           // NaN if no round has a weight (SNIPS)
  double parameter = kNoLimit;  // the M that was chosen
  double bias = 0.0;            // its difference from IPS or DR, for estimators with a bias
  double error = 0.0;           // root of the estimated variance and the squared bias
  Interval bootstrap;           // 95 %
  // 95 %; nothing for SNIPS, for rewards beyond their range, if drop probabilities differ, and for
  // events with several rounds.
  std::optional<Interval> bernstein;
  double difference = 0.0;       // from the baseline
  Interval difference_interval;  // bootstrap of pairs, 95 %
};

struct PolicyEvaluation {
  std::string name;
  WeightHealth weights;
  // 95 % at all times at once, from IPS; nothing where `bernstein` has nothing.
  std::optional<Interval> anytime;
  std::vector<PolicyEstimate> estimates;
};

struct LearningEvaluation {
  std::string name;
  LearningPolicy::Method method{};
  std::uint64_t rounds = 0;
  std::uint64_t kept = 0;
  double value = 0.0;               // NaN if nothing was kept
  std::optional<Interval> anytime;  // as of PolicyEvaluation
};

// The rounds of one slot, or of all.
struct SlotEvaluation {
  std::optional<std::uint32_t> slot;  // nothing: all
  std::uint64_t rounds = 0;
  double logged = 0.0;  // the mean reward of the log
  Interval logged_interval;
  std::vector<PolicyEvaluation> policies;
};

struct Evaluation {
  LogHealth log;
  std::uint64_t excluded = 0;    // rounds marked as not to be learned
  std::uint64_t unrewarded = 0;  // rounds without a reward
  // All rounds, then every slot if there are several.
  std::vector<SlotEvaluation> slots;
  std::vector<LearningEvaluation> learning;
  std::vector<std::string> warnings;
};

// Reads the rounds of a log from front to back; without `features`, contexts and features may be
// missing. Called twice: the second time there may be further rounds at the end, which are not
// evaluated.
using ReadRounds = std::function<void(bool features, const VisitRound& visit)>;

// What policies would have earned on the log. Results do not depend on the number of threads.
// Throws Error: kUsage for an unknown policy; kInput for an empty log, and for a log without
// randomness if an estimator needs it, with the remedy.
Evaluation evaluate_log(const ReadRounds& read, const EvaluationOptions& options,
                        ThreadPool& threads);

}  // namespace mcnb
