#include "mcnb/evaluate/slot_estimates.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// One estimator of one policy, before it is drawn again and again.
struct Plan {
  std::size_t policy = 0;
  Estimator estimator{};
  double parameter = kNoLimit;
};

GroupedFractions fractions_of(const Plan& plan, const PolicyRows& policy) {
  GroupedFractions fractions(policy.rows.size());
  for (const EvaluatedRow& row : policy.rows) {
    fractions.add(fraction_of(plan.estimator, plan.parameter, row));
  }
  return fractions;
}

// The width of the range of what an estimator adds for one round; see fraction_of.
double width_of(const Plan& plan, double largest_weight, const EvaluationOptions& options) {
  const double range = options.highest_reward - options.lowest_reward;
  const double least = std::min(options.lowest_reward, 0.0);
  const double most = std::max(options.highest_reward, 0.0);
  switch (plan.estimator) {
    case Estimator::kIps:
      return largest_weight * (most - least);
    case Estimator::kClippedIps:
      return std::min(largest_weight, plan.parameter) * (most - least);
    case Estimator::kSnips:
    case Estimator::kDirect:
      return range;
    case Estimator::kSwitch:
      return range * (1.0 + 2.0 * std::min(largest_weight, plan.parameter));
    case Estimator::kShrinkage:  // M w / (w^2 + M) is at most sqrt(M) / 2
      return range * (1.0 + 2.0 * std::min(largest_weight, std::sqrt(plan.parameter) / 2.0));
    case Estimator::kDoublyRobust:
      break;
  }
  return range * (1.0 + 2.0 * largest_weight);
}

Interval bernstein_of(const Plan& plan, const PolicyRows& policy,
                      const EvaluationOptions& options) {
  std::vector<double> values;
  for (const EvaluatedRow& row : policy.rows) {
    const Fraction fraction = fraction_of(plan.estimator, plan.parameter, row);
    values.push_back(fraction.numerator / fraction.denominator);
  }
  const Interval interval =
      empirical_bernstein(values, width_of(plan, policy.largest_weight, options));
  const auto possible = [&](double value) {
    return std::clamp(value, options.lowest_reward, options.highest_reward);
  };
  return {possible(interval.low), possible(interval.high)};
}

// The difference of a biased estimator from one without bias.
double bias_of(const Plan& plan, const PolicyRows& policy) {
  if (is_unbiased(plan.estimator)) {
    return 0.0;
  }
  const Estimator other =
      plan.estimator == Estimator::kClippedIps ? Estimator::kIps : Estimator::kDoublyRobust;
  return value_of(plan.estimator, plan.parameter, policy.rows) -
         value_of(other, kNoLimit, policy.rows);
}

std::vector<double> differences(const std::vector<double>& values,
                                const std::vector<double>& reference) {
  std::vector<double> all(values.size());
  std::ranges::transform(values, reference, all.begin(), std::minus<>());
  return all;
}

// The series of one baseline for every estimator: the log has only its mean reward.
Plan baseline_plan(std::size_t baseline, Estimator estimator, const PolicyRows& rows) {
  if (baseline == 0) {
    return {0, Estimator::kIps, kNoLimit};
  }
  return {baseline, estimator, choose_parameter(estimator, rows.rows)};
}

PolicyEvaluation policy_evaluation(const PolicyRows& policy, const EvaluationOptions& options,
                                   bool bounded) {
  PolicyEvaluation evaluation{.name = policy.name, .weights = weight_health(policy.rows)};
  evaluation.weights.impossible = policy.impossible / static_cast<double>(policy.rows.size());
  if (bounded) {
    ConfidenceSequence sequence(options.lowest_reward, options.highest_reward);
    for (const EvaluatedRow& row : policy.rows) {
      sequence.add(row.weight, row.reward);
    }
    evaluation.anytime = sequence.interval();
  }
  return evaluation;
}

}  // namespace

SlotEvaluation estimate_slot(const EvaluationOptions& options,
                             const std::vector<PolicyRows>& policies, std::size_t shown,
                             bool bounded) {
  const std::size_t baseline = policies.size() - 1 == shown ? 0 : shown + 1;
  const std::size_t per_policy = options.estimators.size();
  // The log, the baseline by each estimator, then every policy by each estimator.
  std::vector<Plan> plans{{0, Estimator::kIps, kNoLimit}};
  for (const Estimator estimator : options.estimators) {
    plans.push_back(baseline_plan(baseline, estimator, policies[baseline]));
  }
  for (std::size_t k = 1; k <= shown; ++k) {
    for (const Estimator estimator : options.estimators) {
      plans.push_back({k, estimator, choose_parameter(estimator, policies[k].rows)});
    }
  }
  std::vector<GroupedFractions> series;
  for (const Plan& plan : plans) {
    series.push_back(fractions_of(plan, policies[plan.policy]));
  }
  const std::vector<std::vector<double>> draws =
      bootstrap(series, static_cast<std::size_t>(options.replicates), options.seed);

  SlotEvaluation result{.slot = std::nullopt,
                        .rounds = policies.front().rows.size(),
                        .logged = series.front().value(),
                        .logged_interval = middle_of(draws.front()),
                        .policies = {}};
  std::size_t at = 1 + per_policy;
  for (std::size_t k = 1; k <= shown; ++k) {
    PolicyEvaluation& evaluation =
        result.policies.emplace_back(policy_evaluation(policies[k], options, bounded));
    for (std::size_t e = 0; e < per_policy; ++e, ++at) {
      const Plan& plan = plans[at];
      PolicyEstimate& estimate = evaluation.estimates.emplace_back();
      estimate.estimator = plan.estimator;
      estimate.value = series[at].value();
      estimate.parameter = plan.parameter;
      estimate.bias = bias_of(plan, policies[k]);
      estimate.bootstrap = middle_of(draws[at]);
      if (bounded && plan.estimator != Estimator::kSnips && policies[k].rows.size() >= 2) {
        estimate.bernstein = bernstein_of(plan, policies[k], options);
      }
      estimate.difference = estimate.value - series[1 + e].value();
      estimate.difference_interval = middle_of(differences(draws[at], draws[1 + e]));
    }
  }
  return result;
}

}  // namespace mcnb
