#include "mcnb/evaluate/slot_estimates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// The width of the range of what an estimator adds for one round; see fraction_of.
double width_of(const EstimatorSums& sums, double largest_weight,
                const EvaluationOptions& options) {
  const double range = options.highest_reward - options.lowest_reward;
  const double least = std::min(options.lowest_reward, 0.0);
  const double most = std::max(options.highest_reward, 0.0);
  switch (sums.estimator()) {
    case Estimator::kIps:
      return largest_weight * (most - least);
    case Estimator::kClippedIps:
      return std::min(largest_weight, sums.limit()) * (most - least);
    case Estimator::kSnips:
    case Estimator::kDirect:
      return range;
    case Estimator::kSwitch:
      return range * (1.0 + 2.0 * std::min(largest_weight, sums.limit()));
    case Estimator::kShrinkage:  // M w / (w^2 + M) is at most sqrt(M) / 2
      return range * (1.0 + 2.0 * std::min(largest_weight, std::sqrt(sums.limit()) / 2.0));
    case Estimator::kDoublyRobust:
      break;
  }
  return range * (1.0 + 2.0 * largest_weight);
}

Interval bernstein_of(const EstimatorSums& sums, double largest_weight,
                      const EvaluationOptions& options) {
  const Interval interval = sums.bernstein(width_of(sums, largest_weight, options));
  const auto possible = [&](double value) {
    return std::clamp(value, options.lowest_reward, options.highest_reward);
  };
  return {possible(interval.low), possible(interval.high)};
}

std::vector<double> differences(const std::vector<double>& values,
                                const std::vector<double>& reference) {
  std::vector<double> all(values.size());
  std::ranges::transform(values, reference, all.begin(), std::minus<>());
  return all;
}

// The middle of the samples in which there is a value: in others SNIPS has no weights.
Interval interval_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values.empty() ? Interval{std::nan(""), std::nan("")} : middle_of(std::move(values));
}

// What does not depend on the bootstrap.
PolicyEstimate estimate_of(const EstimatorSums& sums, const PolicySums& policy,
                           const EvaluationOptions& options, bool bounded) {
  PolicyEstimate estimate;
  estimate.estimator = sums.estimator();
  estimate.value = sums.value();
  estimate.parameter = sums.limit();
  if (!is_unbiased(sums.estimator())) {
    estimate.bias = estimate.value - policy.unbiased(sums.estimator());
  }
  estimate.error = std::hypot(sums.standard_error(), estimate.bias);
  const bool keeps_range = policy.models_in_range || !uses_model(sums.estimator());
  if (bounded && keeps_range && !policy.has_events() && sums.estimator() != Estimator::kSnips &&
      policy.rounds() >= 2) {
    estimate.bernstein = bernstein_of(sums, policy.largest_weight, options);
  }
  return estimate;
}

}  // namespace

PolicySums::PolicySums(std::string policy, std::span<const Estimator> estimators,
                       const EvaluationOptions& options)
    : name(std::move(policy)),
      sequence_(ConfidenceSequence(options.lowest_reward, options.highest_reward)),
      lowest_(options.lowest_reward),
      highest_(options.highest_reward) {
  for (const Estimator estimator : estimators) {
    estimators_.emplace_back(estimator);
  }
}

void PolicySums::add(const EvaluatedRow& row, bool joins) {
  if (rows_.size() >= kRowsAtOnce && !joins) {
    sum_up();
  }
  rows_.push_back(row);
  joins_.push_back(joins ? 1 : 0);
  has_events_ = has_events_ || joins;
}

void PolicySums::sum_up() {
  const bool several = std::ranges::count(joins_, 1) > 0;
  for (EstimatorSums& sums : estimators_) {
    sums.add(rows_, several ? std::span<const char>(joins_) : std::span<const char>{});
  }
  for (const EvaluatedRow& row : rows_) {
    weights_.add(row.weight, row.reward);
    const double earned = row.sample_weight * row.weight;
    ips_.numerator += earned * row.reward;
    ips_.denominator += row.sample_weight;
    doubly_robust_.numerator +=
        row.sample_weight * row.model_policy + earned * (row.reward - row.model_logged);
    if (!sequence_) {
      continue;
    }
    if (row.reward >= lowest_ && row.reward <= highest_) {
      sequence_->add(row.weight, row.reward);
    } else {
      sequence_.reset();
    }
  }
  rounds_ += rows_.size();
  rows_.clear();
  joins_.clear();
}

WeightHealth PolicySums::health() const {
  WeightHealth health = weights_.health();
  health.impossible = impossible / static_cast<double>(rounds_);
  return health;
}

std::optional<Interval> PolicySums::anytime() const {
  return sequence_ && !has_events_ ? std::optional(sequence_->interval()) : std::nullopt;
}

double PolicySums::unbiased(Estimator biased) const {
  const Fraction& other = biased == Estimator::kClippedIps ? ips_ : doubly_robust_;
  return other.numerator / ips_.denominator;
}

SlotEvaluation estimate_slot(const EvaluationOptions& options, std::span<const PolicySums> policies,
                             std::size_t shown, bool bounded) {
  check(policies.front().rounds() > 0, "a slot has rounds");
  // The log, the baseline by each estimator (the log has only its mean), then every policy by each.
  const bool has_baseline = policies.size() - 1 > shown;
  std::vector<const GroupedFractions*> series{&policies[0].estimators()[0].groups()};
  for (std::size_t e = 0; e < options.estimators.size(); ++e) {
    series.push_back(has_baseline ? &policies[shown + 1].estimators()[e].groups() : series[0]);
  }
  for (const PolicySums& policy : policies.subspan(1, shown)) {
    for (const EstimatorSums& sums : policy.estimators()) {
      series.push_back(&sums.groups());
    }
  }
  const std::vector<std::vector<double>> draws =
      bootstrap(series, static_cast<std::size_t>(options.replicates), options.seed);

  SlotEvaluation result{.slot = std::nullopt,
                        .rounds = policies[0].rounds(),
                        .logged = series[0]->value(),
                        .logged_interval = middle_of(draws[0]),
                        .policies = {}};
  std::size_t at = 1 + options.estimators.size();
  for (const PolicySums& policy : policies.subspan(1, shown)) {
    PolicyEvaluation& evaluation = result.policies.emplace_back(
        PolicyEvaluation{.name = policy.name, .weights = policy.health()});
    if (bounded) {
      evaluation.anytime = policy.anytime();
    }
    for (std::size_t e = 0; e < options.estimators.size(); ++e, ++at) {
      PolicyEstimate& estimate = evaluation.estimates.emplace_back(
          estimate_of(policy.estimators()[e], policy, options, bounded));
      estimate.bootstrap = interval_of(draws[at]);
      estimate.difference = estimate.value - series[1 + e]->value();
      estimate.difference_interval = interval_of(differences(draws[at], draws[1 + e]));
    }
  }
  return result;
}

}  // namespace mcnb
