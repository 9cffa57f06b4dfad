#include "mcnb/evaluate/log_warnings.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kFewPositive = 30;
constexpr int kSmallEffectiveSize = 200;

// `enough`: the log has enough rewards above 0, whatever the policy would have done.
void warn_of(const PolicyEvaluation& policy, bool enough, std::vector<std::string>& warnings) {
  const WeightHealth& health = policy.weights;
  if (health.effective_size < kSmallEffectiveSize) {
    warnings.push_back(
        fmt::format("{}: an effective sample size of {:.0f}: intervals hold less often than they "
                    "say below {}",
                    policy.name, health.effective_size, kSmallEffectiveSize));
  }
  if (enough && health.positive < kFewPositive) {
    warnings.push_back(
        fmt::format("{}: only {} rewards above 0 are of decisions that it could have made: "
                    "intervals hold less often than they say below {}",
                    policy.name, health.positive, kFewPositive));
  }
  if (health.impossible > 0.0) {
    warnings.push_back(
        fmt::format("{}: {:.2f} % of its decisions were impossible in the log, and count as if "
                    "they earned nothing in IPS",
                    policy.name, 100.0 * health.impossible));
  } else if (health.effective_size >= kSmallEffectiveSize && !health.mean_interval.contains(1.0)) {
    warnings.push_back(fmt::format(
        "{}: the mean weight is {:.4f} ({:.4f} to {:.4f}) instead of 1: the probabilities of the "
        "log are not right",
        policy.name, health.mean, health.mean_interval.low, health.mean_interval.high));
  }
}

}  // namespace

void refuse_certain_log(std::span<const Estimator> estimators) {
  if (std::ranges::any_of(estimators, uses_weights)) {
    throw Error(
        ErrorKind::kInput,
        "every decision of this log was made with probability 1, so the log cannot say what other "
        "actions would have earned, and only the direct method (--estimators dm) is left, which "
        "believes a model; log with exploration, such as epsilon above 0 in mcnb serve, and with "
        "the probability of each decision");
  }
}

void add_warnings(const EvaluationOptions& options, Evaluation& evaluation) {
  const LogHealth& log = evaluation.log;
  const auto add = [&](const std::string& text) { evaluation.warnings.push_back(text); };
  if (log.unsummed > 0) {
    add(
        fmt::format("the probabilities of {} of {} rounds do not add up to 1, or differ from "
                    "that of the chosen action",
                    log.unsummed, log.rounds));
  }
  if (log.taken.size() < log.actions.size()) {
    add(fmt::format("{} of {} actions were never taken", log.actions.size() - log.taken.size(),
                    log.actions.size()));
  }
  if (log.positive < kFewPositive) {
    add(
        fmt::format("only {} rewards are above 0: intervals hold less often than they say below "
                    "{}",
                    log.positive, kFewPositive));
  }
  if (log.lowest_reward < options.lowest_reward || log.highest_reward > options.highest_reward) {
    add(fmt::format(
        "rewards from {:g} to {:g} leave the range {:g} to {:g}, so there are no "
        "Bernstein and anytime intervals: see --reward-range",
        log.lowest_reward, log.highest_reward, options.lowest_reward, options.highest_reward));
  }
  for (const PolicyEvaluation& policy : evaluation.slots.front().policies) {
    warn_of(policy, log.positive >= kFewPositive, evaluation.warnings);
  }
}

}  // namespace mcnb
