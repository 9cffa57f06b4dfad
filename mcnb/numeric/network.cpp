#include "mcnb/numeric/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

[[noreturn]] void out_of_range(const char* field, std::uint64_t low, std::uint64_t high,
                               std::uint64_t found) {
  throw Error(ErrorKind::kUsage,
              fmt::format("network {}: expected {} to {}, got {}", field, low, high, found));
}

double squares(std::span<const float> v) {
  double sum = 0.0;
  for (const float value : v) {
    sum += static_cast<double>(value) * value;
  }
  return sum;
}

// How one vector differs from another: |a|^2, |Da|^2 and a . Da, where Da = a - other.
struct Change {
  double size = 0.0;
  double step = 0.0;
  double cross = 0.0;

  void add(double value, double other) {
    const double difference = value - other;
    size += value * value;
    step += difference * difference;
    cross += difference * value;
  }
};

Change change(std::span<const float> a, std::span<const float> other) {
  Change sums;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sums.add(a[i], other[i]);
  }
  return sums;
}

// How one feature vector differs from another; their blocks may overlap in part or not at all.
Change change(const Features& x, const Features& other) {
  if (x.offset == other.offset && x.values.size() == other.values.size()) {
    return change(x.values, other.values);
  }
  const auto at = [](const Features& features, std::size_t position) {
    const bool inside =
        position >= features.offset && position - features.offset < features.values.size();
    return inside ? features.values[position - features.offset] : 0.0F;
  };
  Change sums;
  const std::size_t x_end = x.offset + x.values.size();
  for (std::size_t position = x.offset; position < x_end; ++position) {
    sums.add(at(x, position), at(other, position));
  }
  for (std::size_t position = other.offset; position < other.offset + other.values.size();
       ++position) {
    if (position < x.offset || position >= x_end) {
      sums.add(0.0, at(other, position));
    }
  }
  return sums;
}

// |b h^T - b' h'^T|^2 = |Db|^2 |h|^2 + |b'|^2 |Dh|^2 + 2 (Db . b') (h . Dh), with Db = b - b' and
// Dh = h - h'. This form stays accurate if the two outer products are close. The change of b is
// taken with the opposite sign, so that the last term is subtracted.
double outer_distance_squared(const Change& b_other, const Change& h, bool constant) {
  const double h_size = h.size + (constant ? 1.0 : 0.0);  // a bias: an input that is 1 in both
  return b_other.step * h_size + b_other.size * h.step - 2.0 * b_other.cross * h.cross;
}

}  // namespace

void NetworkShape::validate() const {
  if (inputs < 1 || inputs > kMaxInputs) {
    out_of_range("inputs", 1, kMaxInputs, inputs);
  }
  if (width < 1 || width > kMaxWidth) {
    out_of_range("width", 1, kMaxWidth, width);
  }
  if (depth < 2 || depth > kMaxDepth) {
    out_of_range("depth", 2, kMaxDepth, depth);
  }
  if (parameter_count() > kMaxParameters) {
    out_of_range("parameters", 1, kMaxParameters, parameter_count());
  }
}

// Looks at all values even after a bad one, since usually all are finite.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  std::uint32_t other = 0;
  for (const float value : values) {
    other |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return other == 0;
}

bool features_fit(const NetworkShape& shape, const Features& features) {
  const std::size_t count = features.values.size();
  return count > 0 && count <= shape.inputs && features.offset <= shape.inputs - count;
}

void check_features(const NetworkShape& shape, const Features& features, std::string_view what) {
  const std::size_t count = features.values.size();
  if (!features_fit(shape, features)) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: {} features at offset {} do not fit {} network inputs", what,
                            count, features.offset, shape.inputs));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(features.values[i])) {
      throw Error(ErrorKind::kInput, fmt::format("{}: feature {} is {}, expected a finite number",
                                                 what, i, features.values[i]));
    }
  }
}

void check_sample(const NetworkShape& shape, const Sample& sample, std::string_view what) {
  check_features(shape, sample.features, what);
  if (!std::isfinite(sample.reward)) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the reward is {}, expected a finite number", what, sample.reward));
  }
}

std::vector<float> random_network(const NetworkShape& shape, Initialisation initialisation,
                                  std::uint64_t seed, std::uint64_t number) {
  shape.validate();
  const std::size_t m = shape.width;
  std::vector<float> parameters(shape.parameter_count(), 0.0F);
  Rng rng(seed, Stream::kWeights, number);
  const bool symmetric = initialisation == Initialisation::kSymmetric;
  const std::size_t half = symmetric ? m / 2 : m;
  const double width = static_cast<double>(m);
  for (std::uint32_t layer = 1; layer < shape.depth; ++layer) {
    float* weights = parameters.data() + shape.layer_offset(layer);
    const double deviation = std::sqrt((symmetric && layer > 1 ? 4.0 : 2.0) / width);
    // The upper left block. In the symmetric form its copy is the lower right block, or in W_1,
    // where all units see the same inputs, the right one.
    const std::size_t rows = layer == 1 ? shape.inputs : half;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < half; ++j) {
        const auto weight = static_cast<float>(deviation * rng.normal());
        weights[i * m + j] = weight;
        if (symmetric) {
          weights[(layer == 1 ? i : i + half) * m + j + half] = weight;
        }
      }
    }
  }
  if (symmetric && m % 2 != 0) {  // one unit without a copy; its weight in W_L starts at zero
    for (std::size_t i = 0; i < shape.inputs; ++i) {
      parameters[i * m + m - 1] = static_cast<float>(std::sqrt(2.0 / width) * rng.normal());
    }
  }
  float* last = parameters.data() + shape.layer_offset(shape.depth);
  const double deviation = std::sqrt(1.0 / width);
  for (std::size_t j = 0; j < half; ++j) {
    last[j] = static_cast<float>(deviation * rng.normal());
    if (symmetric) {
      last[j + half] = -last[j];
    }
  }
  return parameters;
}

void find_gradient(const NetworkShape& shape, std::span<const float> network,
                   const Features& features, GradientFactors& factors) {
  check(network.size() == shape.parameter_count(), "the parameters match the network's shape");
  check(features_fit(shape, features), "the features fit the network");
  factors.features = features;
  factors.activations.resize(shape.hidden_count());
  factors.signals.resize(shape.hidden_count());
  factors.value = kernels::forward(shape, network.data(), features.values, features.offset,
                                   factors.activations.data());
  kernels::backward(shape, network.data(), factors.activations.data(), factors.signals.data());
}

double gradient_norm(const NetworkShape& shape, const GradientFactors& factors) {
  const double one = shape.biases ? 1.0 : 0.0;
  double inputs = squares(factors.features.values);
  double sum = 0.0;
  for (std::size_t layer = 0; layer + 1 < shape.depth; ++layer) {
    const std::size_t start = layer * shape.padded_width();
    sum += squares({factors.signals.data() + start, shape.width}) * (inputs + one);
    inputs = squares({factors.activations.data() + start, shape.width});
  }
  return std::sqrt(sum + inputs + one);
}

double gradient_distance(const NetworkShape& shape, const GradientFactors& a,
                         const GradientFactors& b) {
  const auto layer = [&](const std::vector<float>& values, std::size_t number) {
    return std::span(values).subspan(number * shape.padded_width(), shape.width);
  };
  double sum = outer_distance_squared(change(layer(b.signals, 0), layer(a.signals, 0)),
                                      change(a.features, b.features), shape.biases);
  for (std::size_t i = 1; i + 1 < shape.depth; ++i) {
    sum += outer_distance_squared(change(layer(b.signals, i), layer(a.signals, i)),
                                  change(layer(a.activations, i - 1), layer(b.activations, i - 1)),
                                  shape.biases);
  }
  const std::size_t last = shape.depth - 2;
  sum += change(layer(a.activations, last), layer(b.activations, last)).step;
  return std::sqrt(std::max(sum, 0.0));
}

}  // namespace mcnb
