#include "mcnb/evaluate/estimate/estimators.h"

#include <fmt/core.h>

#include <algorithm>

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

double value_of(Estimator estimator, double parameter, std::span<const EvaluatedRow> rows) {
  check(!rows.empty(), "a value needs rows");
  Fraction sum;
  for (const EvaluatedRow& row : rows) {
    const Fraction fraction = fraction_of(estimator, parameter, row);
    sum.numerator += fraction.numerator;
    sum.denominator += fraction.denominator;
  }
  return sum.denominator > 0.0 ? sum.numerator / sum.denominator
                               : std::numeric_limits<double>::quiet_NaN();
}

std::span<const double> limits_of(Estimator estimator) {
  constexpr std::size_t kLimits = 21;
  constexpr double kLowest = 0.125;
  const auto powers = [](double base) {
    std::array<double, kLimits> all{kNoLimit};
    double limit = kLowest;
    for (std::size_t i = 1; i < kLimits; ++i, limit *= base) {
      all[i] = limit;
    }
    return all;
  };
  static const std::array<double, kLimits> kPowersOfTwo = powers(2.0);
  static const std::array<double, kLimits> kPowersOfFour = powers(4.0);
  if (!has_parameter(estimator)) {
    return std::span(kPowersOfTwo).first(1);
  }
  return estimator == Estimator::kShrinkage ? kPowersOfFour : kPowersOfTwo;
}

}  // namespace mcnb
