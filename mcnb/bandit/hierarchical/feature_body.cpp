#include "mcnb/bandit/hierarchical/feature_body.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mcnb/base/check.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/network.h"

namespace mcnb {
namespace {

constexpr double kBiasScale = 0.1;  // of random biases, in units of the weights' scale

}  // namespace

FeatureBody::FeatureBody(std::size_t inputs, std::size_t units, std::uint64_t seed)
    : shape_{.inputs = static_cast<std::uint32_t>(inputs),
             .width = static_cast<std::uint32_t>(units),
             .biases = true} {
  shape_.validate();
  weights_.resize(shape_.layer_offset(2));
  const double scale = std::sqrt(2.0 / static_cast<double>(units));
  Rng rng(seed, Stream::kBodyWeights);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const bool is_bias = i >= inputs * units;
    weights_[i] = static_cast<float>((is_bias ? kBiasScale : 1.0) * scale * rng.normal());
  }
}

FeatureBody::FeatureBody(const FeatureBody& like, std::span<const float> weights)
    : shape_(like.shape_), weights_(weights.begin(), weights.end()) {
  check(weights.size() == like.weights_.size(), "the weights are those of a body of this shape");
}

void FeatureBody::expand(std::span<const float> arm, double* out) const {
  std::vector<float> sums(shape_.padded_width());
  kernels::first_layer(shape_, weights_.data(), arm, 0, sums.data());
  for (std::size_t i = 0; i < units(); ++i) {
    out[i] = std::max(0.0, static_cast<double>(sums[i]));
  }
}

bool FeatureBody::operator==(const FeatureBody& other) const {
  return shape_ == other.shape_ &&
         std::memcmp(weights_.data(), other.weights_.data(), weights_.size() * sizeof(float)) == 0;
}

FeatureBody FeatureBody::load(StateReader& reader) const {
  const std::vector<float> weights = reader.read_all<float>(weights_.size());
  if (weights.size() != weights_.size()) {
    reader.fail("the hidden layer has another size");
  }
  if (!all_finite(weights)) {
    reader.fail("the hidden layer holds a number that is not finite");
  }
  return {*this, weights};
}

}  // namespace mcnb
