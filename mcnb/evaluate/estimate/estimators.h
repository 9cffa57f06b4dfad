#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace mcnb {

// One logged round as the estimators of a policy's value see it.
struct EvaluatedRow {
  double weight = 0.0;         // w: the policy's probability of the logged action over the log's
  double reward = 0.0;         // r
  double model_logged = 0.0;   // q(x, a): the reward that a model expects of the logged action
  double model_policy = 0.0;   // v(x): the mean of q(x, .) under the policy
  double sample_weight = 1.0;  // 1 / (1 - drop probability): rounds that this one stands for
};

// Each estimates the mean reward that the policy would have earned. Sums and means weigh every
// round by its sample weight.
enum class Estimator {
  kIps,           // mean of w r
  kClippedIps,    // mean of min(w, M) r
  kSnips,         // sum of w r / sum of w
  kDirect,        // DM: mean of v
  kDoublyRobust,  // DR: mean of v + w (r - q)
  kSwitch,        // SWITCH-DR: DR whose w counts only up to M
  kShrinkage,     // DRos: DR with M w / (w^2 + M) instead of w
};
inline constexpr std::array<Estimator, 7> kEveryEstimator = {
    Estimator::kIps,          Estimator::kClippedIps, Estimator::kSnips,    Estimator::kDirect,
    Estimator::kDoublyRobust, Estimator::kSwitch,     Estimator::kShrinkage};

// "IPS", "clipped IPS", "SNIPS", "DM", "DR", "SWITCH-DR", "DRos".
const char* name_of(Estimator estimator);
// The name in lower case with hyphens: "clipped-ips". Throws Error (kUsage).
Estimator parse_estimator(const std::string& name);

// True for those whose mean is the policy's value if the log's probabilities are right, whatever
// the model of the rewards (SNIPS: nearly). The others give up some of that for less variance.
bool is_unbiased(Estimator estimator);
bool has_parameter(Estimator estimator);
bool uses_model(Estimator estimator);
// All but the direct method: they need a log that could have chosen otherwise.
bool uses_weights(Estimator estimator);

// The M under which nothing is clipped, switched off or shrunk.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The value of an estimator is the sum of the numerators over that of the denominators.
struct Fraction {
  double numerator = 0.0;
  double denominator = 0.0;
};
inline Fraction fraction_of(Estimator estimator, double parameter, const EvaluatedRow& row);

// Requires rows; 0 if no row has a weight (SNIPS).
double value_of(Estimator estimator, double parameter, std::span<const EvaluatedRow> rows);

// What the M of an estimator may be: kNoLimit first, then twenty powers of two from 1/8 on, or of
// four for shrinkage. Only kNoLimit for estimators without M.
std::span<const double> limits_of(Estimator estimator);

// The weight as the estimator counts it.
inline double limited_weight(Estimator estimator, double parameter, double weight) {
  if (parameter == kNoLimit) {
    return weight;
  }
  switch (estimator) {
    case Estimator::kClippedIps:
      return std::min(weight, parameter);
    case Estimator::kSwitch:
      return weight <= parameter ? weight : 0.0;
    case Estimator::kShrinkage:
      return parameter * weight / (weight * weight + parameter);
    default:
      return weight;
  }
}

inline Fraction fraction_of(Estimator estimator, double parameter, const EvaluatedRow& row) {
  const double s = row.sample_weight;
  const double weight = limited_weight(estimator, parameter, row.weight);
  switch (estimator) {
    case Estimator::kIps:
    case Estimator::kClippedIps:
      return {s * weight * row.reward, s};
    case Estimator::kSnips:
      return {s * weight * row.reward, s * weight};
    case Estimator::kDirect:
      return {s * row.model_policy, s};
    case Estimator::kDoublyRobust:
    case Estimator::kSwitch:
    case Estimator::kShrinkage:
      break;
  }
  return {s * (row.model_policy + weight * (row.reward - row.model_logged)), s};
}

}  // namespace mcnb
