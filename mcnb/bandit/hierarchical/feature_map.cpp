#include "mcnb/bandit/hierarchical/feature_map.h"

#include <algorithm>
#include <cstring>
#include <numbers>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {

FeatureMap::FeatureMap(const Options& options) : options_(options) {
  check(options.shared_products || !options.own_products,
        "the own features are a prefix of the shared ones");
  check(!options.body || !options.shared_products, "a body excludes products");
  check(!options.body || options.body->inputs() == options.inputs, "the body takes the arms");
  const std::size_t inputs = options.inputs;
  const auto add = [&](FeatureGroup group, std::size_t count) {
    groups_.insert(groups_.end(), count, group);
  };
  add(FeatureGroup::kConstant, 1);
  add(FeatureGroup::kLinear, options.linear ? inputs : 0);
  add(FeatureGroup::kHidden, options.body ? options.body->units() : 0);
  own_size_ = groups_.size();
  if (options.shared_products) {
    add(FeatureGroup::kProducts, inputs * (inputs + 1) / 2);
  }
  if (options.own_products) {
    own_size_ = groups_.size();
  }
  add(FeatureGroup::kUser, options.user_features * (options.linear ? 1 + inputs : 1));
}

FeatureMap FeatureMap::with_body(std::shared_ptr<const FeatureBody> body) const {
  check(options_.body && body && body->units() == options_.body->units() &&
            body->inputs() == options_.body->inputs(),
        "the bodies have the same shape");
  FeatureMap map = *this;
  map.options_.body = std::move(body);
  return map;
}

// Cross terms count twice in the square of a sum, hence the factor sqrt 2: the inner product of two
// expanded arms is then 1 + a.b + (a.b)^2.
double* FeatureMap::expand_arm(std::span<const float> arm, bool products, const double* hidden,
                               double* out) const {
  *out++ = 1.0;
  if (options_.linear) {
    for (const float value : arm) {
      *out++ = static_cast<double>(value);
    }
  }
  if (options_.body) {
    if (hidden != nullptr) {
      std::copy_n(hidden, options_.body->units(), out);
    } else {
      options_.body->expand(arm, out);
    }
    out += options_.body->units();
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

void FeatureMap::expand_user(std::span<const float> arm, std::span<const float> user,
                             double* out) const {
  for (std::size_t k = 0; k < options_.user_features; ++k) {
    const auto feature = static_cast<double>(user[k]);
    *out++ = feature;
    if (options_.linear) {
      for (const float value : arm) {
        *out++ = feature * static_cast<double>(value);
      }
    }
  }
}

void FeatureMap::expand(std::span<const float> arm, std::span<const float> user,
                        double* out) const {
  out = expand_arm(arm, options_.shared_products, nullptr, out);
  expand_user(arm, user, out);
}

void FeatureMap::expand_own(std::span<const float> arm, double* out) const {
  expand_arm(arm, options_.own_products, nullptr, out);
}

void FeatureMap::expand(std::span<const float> arm, std::span<const float> user, double* out,
                        LastHidden& last) const {
  if (!options_.body) {
    expand(arm, user, out);
    return;
  }
  // Bit for bit: 0 and -0 are different numbers here.
  const bool known = last.body == options_.body && last.arm.size() == arm.size() &&
                     std::memcmp(last.arm.data(), arm.data(), arm.size_bytes()) == 0;
  if (!known) {
    last.body = options_.body;
    last.arm.assign(arm.begin(), arm.end());
    last.units.resize(options_.body->units());
    options_.body->expand(arm, last.units.data());
  }
  out = expand_arm(arm, options_.shared_products, last.units.data(), out);
  expand_user(arm, user, out);
}

}  // namespace mcnb
