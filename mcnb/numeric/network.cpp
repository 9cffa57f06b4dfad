#include "mcnb/numeric/network.h"

#include <fmt/core.h>

#include <algorithm>
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

// |b h^T - b' h'^T|^2 from inner products. With Db = b - b' and Dh = h - h' this is
// |Db|^2 |h|^2 + |b'|^2 |Dh|^2 + 2 (Db . b') (h . Dh), which keeps its digits when the two outer
// products are close; `constant` adds an input that is 1 in both (a bias).
double outer_distance_squared(std::span<const float> b, std::span<const float> b_other,
                              std::span<const float> h, std::span<const float> h_other,
                              bool constant) {
  double b_step = 0.0;
  double b_other_size = 0.0;
  double b_cross = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double step = static_cast<double>(b[i]) - b_other[i];
    b_step += step * step;
    b_other_size += static_cast<double>(b_other[i]) * b_other[i];
    b_cross += step * b_other[i];
  }
  double h_size = constant ? 1.0 : 0.0;
  double h_step = 0.0;
  double h_cross = 0.0;
  for (std::size_t i = 0; i < h.size(); ++i) {
    const double step = static_cast<double>(h[i]) - h_other[i];
    h_size += static_cast<double>(h[i]) * h[i];
    h_step += step * step;
    h_cross += step * h[i];
  }
  return b_step * h_size + b_other_size * h_step + 2.0 * b_cross * h_cross;
}

// The same for features in different blocks, of which only a part may overlap.
double first_layer_distance_squared(std::span<const float> b, std::span<const float> b_other,
                                    const Features& x, const Features& x_other, bool constant) {
  if (x.offset == x_other.offset && x.values.size() == x_other.values.size()) {
    return outer_distance_squared(b, b_other, x.values, x_other.values, constant);
  }
  double b_product = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    b_product += static_cast<double>(b[i]) * b_other[i];
  }
  const double one = constant ? 1.0 : 0.0;
  double x_product = one;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t place = x.offset + i;
    if (place >= x_other.offset && place - x_other.offset < x_other.values.size()) {
      x_product += static_cast<double>(x.values[i]) * x_other.values[place - x_other.offset];
    }
  }
  return squares(b) * (squares(x.values) + one) +
         squares(b_other) * (squares(x_other.values) + one) - 2.0 * b_product * x_product;
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

void check_features(const NetworkShape& shape, const Features& features, std::string_view what) {
  const std::size_t count = features.values.size();
  if (count == 0 || count > shape.inputs || features.offset > shape.inputs - count) {
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
    throw Error(ErrorKind::kInput, fmt::format("{}: the reward is {}, expected a finite number",
                                               what, sample.reward));
  }
}

std::vector<float> random_network(const NetworkShape& shape, Initialisation initialisation,
                                  std::uint64_t seed, std::uint64_t number) {
  shape.validate();
  const std::size_t m = shape.width;
  if (initialisation == Initialisation::kSymmetric && m % 2 != 0) {
    throw Error(ErrorKind::kUsage, fmt::format("network width: the symmetric initialisation needs "
                                               "an even number, got {}",
                                               m));
  }
  std::vector<float> parameters(shape.parameter_count(), 0.0F);
  Rng rng(seed, Stream::kWeights, number);
  const bool symmetric = initialisation == Initialisation::kSymmetric;
  const std::size_t half = symmetric ? m / 2 : m;
  const double width = static_cast<double>(m);
  for (std::uint32_t layer = 1; layer < shape.depth; ++layer) {
    float* weights = parameters.data() + shape.layer_offset(layer);
    const double deviation = std::sqrt((symmetric && layer > 1 ? 4.0 : 2.0) / width);
    // The upper left block; in the symmetric form its twin is the lower right one, or, in W_1,
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
  double sum = first_layer_distance_squared(layer(a.signals, 0), layer(b.signals, 0), a.features,
                                            b.features, shape.biases);
  for (std::size_t i = 1; i + 1 < shape.depth; ++i) {
    sum += outer_distance_squared(layer(a.signals, i), layer(b.signals, i),
                                  layer(a.activations, i - 1), layer(b.activations, i - 1),
                                  shape.biases);
  }
  const std::size_t last = shape.depth - 2;
  for (std::size_t i = 0; i < shape.width; ++i) {
    const double step = static_cast<double>(layer(a.activations, last)[i]) -
                        layer(b.activations, last)[i];
    sum += step * step;
  }
  return std::sqrt(std::max(sum, 0.0));
}

}  // namespace mcnb
