#pragma once

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
Fraction fraction_of(Estimator estimator, double parameter, const EvaluatedRow& row);

// Requires rows; 0 if no row has a weight (SNIPS).
double value_of(Estimator estimator, double parameter, std::span<const EvaluatedRow> rows);

// The M, among halvings of the largest weight (quarterings of its square, for shrinkage) and
// kNoLimit, with the least estimate of the mean squared error: the variance of the value and the
// square of its difference from the estimator without limit. kNoLimit for estimators without M.
double choose_parameter(Estimator estimator, std::span<const EvaluatedRow> rows);

}  // namespace mcnb
