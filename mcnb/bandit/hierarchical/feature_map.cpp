#include "mcnb/bandit/hierarchical/feature_map.h"

#include <numbers>

#include "mcnb/base/check.h"

namespace mcnb {

FeatureMap::FeatureMap(const Options& options) : options_(options) {
  check(options.shared_products || !options.own_products,
        "the own features are a prefix of the shared ones");
  const std::size_t inputs = options.inputs;
  const auto add = [&](FeatureGroup group, std::size_t count) {
    groups_.insert(groups_.end(), count, group);
  };
  add(FeatureGroup::kConstant, 1);
  add(FeatureGroup::kLinear, inputs);
  own_size_ = groups_.size();
  if (options.shared_products) {
    add(FeatureGroup::kProducts, inputs * (inputs + 1) / 2);
  }
  if (options.own_products) {
    own_size_ = groups_.size();
  }
  add(FeatureGroup::kUser, options.user_features * (1 + inputs));
}

// Cross terms count twice in the square of a sum, hence the factor sqrt 2: the inner product of two
// expanded arms is then 1 + a.b + (a.b)^2.
double* FeatureMap::expand_arm(std::span<const float> arm, bool products, double* out) const {
  *out++ = 1.0;
  for (const float value : arm) {
    *out++ = static_cast<double>(value);
  }
  if (!products) {
    return out;
  }
  for (std::size_t i = 0; i < arm.size(); ++i) {
    const double scaled = std::numbers::sqrt2 * static_cast<double>(arm[i]);
    for (std::size_t j = 0; j < i; ++j) {
      *out++ = scaled * static_cast<double>(arm[j]);
    }
    *out++ = static_cast<double>(arm[i]) * static_cast<double>(arm[i]);
  }
  return out;
}

void FeatureMap::expand(std::span<const float> arm, std::span<const float> user,
                        double* out) const {
  out = expand_arm(arm, options_.shared_products, out);
  for (std::size_t k = 0; k < options_.user_features; ++k) {
    const auto feature = static_cast<double>(user[k]);
    *out++ = feature;
    for (const float value : arm) {
      *out++ = feature * static_cast<double>(value);
    }
  }
}

void FeatureMap::expand_own(std::span<const float> arm, double* out) const {
  expand_arm(arm, options_.own_products, out);
}

}  // namespace mcnb
