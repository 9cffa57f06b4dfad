#include "mcnb/evaluate/estimate/estimators.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

struct EstimatorNames {
  const char* shown;
  const char* flag;
};
constexpr std::array<EstimatorNames, 7> kNames = {{{"IPS", "ips"},
                                                   {"clipped IPS", "clipped-ips"},
                                                   {"SNIPS", "snips"},
                                                   {"DM", "dm"},
                                                   {"DR", "dr"},
                                                   {"SWITCH-DR", "switch-dr"},
                                                   {"DRos", "dros"}}};

double limited(Estimator estimator, double parameter, double weight) {
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

}  // namespace

const char* name_of(Estimator estimator) {
  return kNames.at(static_cast<std::size_t>(estimator)).shown;
}

Estimator parse_estimator(const std::string& name) {
  std::string known;
  for (const Estimator estimator : kEveryEstimator) {
    const char* const flag = kNames.at(static_cast<std::size_t>(estimator)).flag;
    if (name == flag) {
      return estimator;
    }
    known += (known.empty() ? "" : ", ") + std::string(flag);
  }
  throw Error(ErrorKind::kUsage, fmt::format("estimator \"{}\": expected one of {}", name, known));
}

bool is_unbiased(Estimator estimator) {
  return estimator == Estimator::kIps || estimator == Estimator::kSnips ||
         estimator == Estimator::kDoublyRobust;
}

bool has_parameter(Estimator estimator) {
  return estimator == Estimator::kClippedIps || estimator == Estimator::kSwitch ||
         estimator == Estimator::kShrinkage;
}

bool uses_model(Estimator estimator) {
  return estimator == Estimator::kDirect || estimator == Estimator::kDoublyRobust ||
         estimator == Estimator::kSwitch || estimator == Estimator::kShrinkage;
}

bool uses_weights(Estimator estimator) { return estimator != Estimator::kDirect; }

Fraction fraction_of(Estimator estimator, double parameter, const EvaluatedRow& row) {
  const double s = row.sample_weight;
  const double weight = limited(estimator, parameter, row.weight);
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

double value_of(Estimator estimator, double parameter, std::span<const EvaluatedRow> rows) {
  check(!rows.empty(), "a value needs rows");
  Fraction sum;
  for (const EvaluatedRow& row : rows) {
    const Fraction fraction = fraction_of(estimator, parameter, row);
    sum.numerator += fraction.numerator;
    sum.denominator += fraction.denominator;
  }
  return sum.denominator > 0.0 ? sum.numerator / sum.denominator : 0.0;
}

double choose_parameter(Estimator estimator, std::span<const EvaluatedRow> rows) {
  double largest = 0.0;
  double sample_weights = 0.0;
  for (const EvaluatedRow& row : rows) {
    largest = std::max(largest, row.weight);
    sample_weights += row.sample_weight;
  }
  if (!has_parameter(estimator) || largest <= 0.0) {
    return kNoLimit;
  }
  const double unlimited = value_of(estimator, kNoLimit, rows);
  const auto squared_error = [&](double parameter) {
    const double value = value_of(estimator, parameter, rows);
    double squares = 0.0;
    for (const EvaluatedRow& row : rows) {
      const Fraction fraction = fraction_of(estimator, parameter, row);
      const double difference = fraction.numerator - value * fraction.denominator;
      squares += difference * difference;
    }
    return squares / (sample_weights * sample_weights) + (value - unlimited) * (value - unlimited);
  };
  const bool squared = estimator == Estimator::kShrinkage;
  double best = kNoLimit;
  double least = squared_error(kNoLimit);
  double parameter = squared ? 64.0 * largest * largest : largest / 2.0;
  for (int i = 0; i < 20; ++i, parameter /= squared ? 4.0 : 2.0) {
    const double error = squared_error(parameter);
    if (error < least) {
      least = error;
      best = parameter;
    }
  }
  return best;
}

}  // namespace mcnb
