#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/network.h"
#include "tests/expect_error.h"
#include "tests/sanitizers.h"

// The oracle for the tests of mcnb/numeric, and the random cases and expectations that they share.
namespace mcnb::plain {

// Expands features to the whole vector that they represent.
inline std::vector<double> dense(const NetworkShape& shape, const Features& features) {
  std::vector<double> x(shape.inputs, 0.0);
  std::copy(features.values.begin(), features.values.end(),
            x.begin() + static_cast<std::ptrdiff_t>(features.offset));
  return x;
}

// The network in textbook form: in double precision, over one explicit vector of parameters, with
// one loop per index.
class PlainNetwork {
 public:
  PlainNetwork(const NetworkShape& shape, std::span<const float> parameters)
      : shape_(shape), theta_(parameters.begin(), parameters.end()) {
    std::size_t start = 0;
    for (std::size_t number = 1; number <= shape.depth; ++number) {
      const std::size_t inputs = number == 1 ? shape.inputs : shape.width;
      const std::size_t outputs = number == shape.depth ? 1 : shape.width;
      layers_.push_back({start, inputs, outputs});
      start += (inputs + (shape.biases ? 1 : 0)) * outputs;
    }
    theta_.resize(start, std::nan(""));  // a vector that is too short shows up in every result
  }

  const NetworkShape& shape() const { return shape_; }
  const std::vector<double>& parameters() const { return theta_; }
  std::vector<double>& parameters() { return theta_; }

  // The offset of a layer's weights, for layer = 1 .. depth.
  struct Layer {
    std::size_t start;
    std::size_t inputs;
    std::size_t outputs;
  };
  const Layer& layer(std::size_t number) const { return layers_[number - 1]; }

  double value(const Features& x) const { return run(x).sums.back()[0]; }

  // df/dtheta by backpropagation, as long as the parameters.
  std::vector<double> gradient(const Features& x) const {
    const Pass pass = run(x);
    std::vector<double> gradient(theta_.size(), 0.0);
    std::vector<double> signal = {1.0};
    for (std::size_t number = layers_.size(); number-- > 0;) {
      const Layer& at = layers_[number];
      const std::vector<double>& inputs = pass.inputs[number];
      std::vector<double> below(at.inputs, 0.0);
      for (std::size_t i = 0; i < at.inputs; ++i) {
        for (std::size_t j = 0; j < at.outputs; ++j) {
          gradient[at.start + i * at.outputs + j] = signal[j] * inputs[i];
          below[i] += theta_[at.start + i * at.outputs + j] * signal[j];
        }
        if (number > 0 && pass.sums[number - 1][i] <= 0.0) {
          below[i] = 0.0;
        }
      }
      for (std::size_t j = 0; shape_.biases && j < at.outputs; ++j) {
        gradient[at.start + at.inputs * at.outputs + j] = signal[j];
      }
      signal = below;
    }
    return gradient;
  }

  // theta -= rate * (f(x) - reward) * df/dtheta. Returns the step that was taken.
  std::vector<double> sgd_step(const Features& x, double reward, double rate) {
    std::vector<double> step = gradient(x);
    const double factor = -rate * (value(x) - reward);
    for (std::size_t i = 0; i < theta_.size(); ++i) {
      step[i] *= factor;
      theta_[i] += step[i];
    }
    return step;
  }

  // f(x) with all numbers replaced by absolute values: the scale of the rounding errors of f(x).
  double magnitude(const Features& x) const { return run(x, true).sums.back()[0]; }

  // How far x is from a kink of the network: the smallest |z| of a hidden unit, relative to the sum
  // of the absolute values of its terms. Above 1e-5, single precision gets all signs right.
  double margin(const Features& x) const {
    const Pass pass = run(x);
    double smallest = 1.0;
    for (std::size_t number = 0; number + 1 < layers_.size(); ++number) {
      const Layer& at = layers_[number];
      for (std::size_t j = 0; j < at.outputs; ++j) {
        double size = shape_.biases ? std::abs(theta_[at.start + at.inputs * at.outputs + j]) : 0.0;
        for (std::size_t i = 0; i < at.inputs; ++i) {
          size += std::abs(theta_[at.start + i * at.outputs + j] * pass.inputs[number][i]);
        }
        if (size > 0.0) {  // otherwise all inputs of the unit are zero, and zero is exact
          smallest = std::min(smallest, std::abs(pass.sums[number][j]) / size);
        }
      }
    }
    return smallest;
  }

 private:
  struct Pass {
    std::vector<std::vector<double>> inputs;  // h_0 .. h_{L-1}
    std::vector<std::vector<double>> sums;    // z_1 .. z_L
  };

  Pass run(const Features& x, bool sizes = false) const {
    const auto taken = [sizes](double number) { return sizes ? std::abs(number) : number; };
    Pass pass;
    pass.inputs.push_back(dense(shape_, x));
    for (const Layer& at : layers_) {
      const std::vector<double> inputs = pass.inputs.back();
      std::vector<double> sums(at.outputs, 0.0);
      const double* row = theta_.data() + at.start;
      for (std::size_t i = 0; i < at.inputs; ++i, row += at.outputs) {
        for (std::size_t j = 0; j < at.outputs; ++j) {
          sums[j] += taken(row[j]) * taken(inputs[i]);
        }
      }
      for (std::size_t j = 0; shape_.biases && j < at.outputs; ++j) {
        sums[j] += taken(row[j]);
      }
      pass.sums.push_back(sums);
      for (double& sum : sums) {
        sum = std::max(sum, 0.0);
      }
      pass.inputs.push_back(sums);
    }
    return pass;
  }

  NetworkShape shape_;
  std::vector<double> theta_;
  std::vector<Layer> layers_;
};

// Adam with the moments of every parameter written out. If lazy, the rows of W_1 that the features
// do not use keep their weights, moments and step counts.
class PlainAdam {
 public:
  PlainAdam(const PlainNetwork& network, double rate)
      : rate_(rate),
        first_(network.parameters().size(), 0.0),
        second_(network.parameters().size(), 0.0),
        steps_(network.parameters().size(), 0) {}

  void step(PlainNetwork& network, const Features& x, double reward) {
    const double error = network.value(x) - reward;
    const std::vector<double> gradient = network.gradient(x);
    const std::size_t width = network.shape().width;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const std::size_t row = i / width;
      const bool feature_row = row < network.shape().inputs;
      if (feature_row && (row < x.offset || row >= x.offset + x.values.size())) {
        continue;
      }
      const double time = ++steps_[i];
      const double g = error * gradient[i];
      first_[i] = 0.9 * first_[i] + 0.1 * g;
      second_[i] = 0.999 * second_[i] + 0.001 * g * g;
      const double mean = first_[i] / (1.0 - std::pow(0.9, time));
      const double spread = std::sqrt(second_[i] / (1.0 - std::pow(0.999, time)));
      network.parameters()[i] -= rate_ * mean / (spread + 1e-8);
    }
  }

 private:
  double rate_;
  std::vector<double> first_;
  std::vector<double> second_;
  std::vector<int> steps_;
};

// The gradient that the factors represent, as long as the parameters.
inline std::vector<double> expand(const NetworkShape& shape, const GradientFactors& factors) {
  std::vector<double> gradient;
  std::vector<double> inputs = dense(shape, factors.features);
  for (std::size_t number = 1; number <= shape.depth; ++number) {
    const auto layer_of = [&](const std::vector<float>& values) {
      const float* from = values.data() + (number - 1) * shape.padded_width();
      return std::vector<double>(from, from + shape.width);
    };
    const bool last = number == shape.depth;
    const std::vector<double> signal = last ? std::vector<double>{1.0} : layer_of(factors.signals);
    if (shape.biases) {
      inputs.push_back(1.0);
    }
    for (const double input : inputs) {
      for (const double s : signal) {
        gradient.push_back(input * s);
      }
    }
    if (!last) {
      inputs = layer_of(factors.activations);
    }
  }
  return gradient;
}

inline double norm(std::span<const double> a) {
  double sum = 0.0;
  for (const double value : a) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

inline double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(sum);
}

// Normal numbers of squared length about `size`.
inline std::vector<float> draw(Rng& rng, std::size_t count, double size = 1.0) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(rng.normal() * std::sqrt(size / static_cast<double>(count)));
  }
  return values;
}

// Draws parameters, including biases, that keep the values of all layers near one.
inline std::vector<float> draw_network(Rng& rng, const NetworkShape& shape) {
  std::vector<float> parameters(shape.parameter_count());
  for (std::uint32_t layer = 1; layer <= shape.depth; ++layer) {
    const std::size_t end =
        layer == shape.depth ? parameters.size() : shape.layer_offset(layer + 1);
    const double inputs = static_cast<double>(shape.layer_inputs(layer));
    for (std::size_t i = shape.layer_offset(layer); i < end; ++i) {
      parameters[i] = static_cast<float>(rng.normal() * std::sqrt(2.0 / inputs));
    }
  }
  return parameters;
}

// Features that own their values.
struct OwnFeatures {
  std::vector<float> values;
  std::uint32_t offset = 0;

  Features view() const { return {values, offset}; }
};

// Draws features for which single precision surely finds the right active units.
inline OwnFeatures draw_clear_features(Rng& rng, const PlainNetwork& network, std::size_t count,
                                       std::uint32_t offset = 0, double margin = 1e-5) {
  OwnFeatures x{draw(rng, count), offset};
  while (network.margin(x.view()) < margin) {
    x.values = draw(rng, count);
  }
  return x;
}

inline std::vector<Features> views(std::span<const OwnFeatures> arms) {
  std::vector<Features> all;
  for (const OwnFeatures& arm : arms) {
    all.push_back(arm.view());
  }
  return all;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline bool same_bits(float a, float b) { return same_bits({&a, 1}, {&b, 1}); }

// Selects one instruction set until the end of the scope.
class SimdTargetInScope {
 public:
  explicit SimdTargetInScope(const std::string& name) : before_(kernels::simd_target()) {
    kernels::use_simd_target(name);
  }
  ~SimdTargetInScope() { kernels::use_simd_target(before_); }
  SimdTargetInScope(const SimdTargetInScope&) = delete;
  SimdTargetInScope& operator=(const SimdTargetInScope&) = delete;

 private:
  std::string before_;
};

// Shapes of every depth, with widths near multiples of every instruction set's vector length.
inline std::vector<NetworkShape> some_shapes(std::uint32_t inputs) {
  std::vector<NetworkShape> shapes;
  for (const std::uint32_t depth : {2U, 3U, 4U}) {
    for (const std::uint32_t width : {1U, 3U, 16U, 50U, 130U}) {
      for (const bool biases : {false, true}) {
        if (kThreadSanitized && biases != (width == 16U)) {
          continue;
        }
        shapes.push_back({inputs, width, depth, biases});
      }
    }
  }
  return shapes;
}

inline std::string describe(const NetworkShape& shape) {
  return "depth " + std::to_string(shape.depth) + ", width " + std::to_string(shape.width) +
         (shape.biases ? ", biases, " : ", ") + std::to_string(shape.inputs) + " inputs";
}

using mcnb::expect_error;

inline bool machine_has(const std::string& simd_target) {
  return std::ranges::count(kernels::simd_targets(), simd_target) > 0;
}

}  // namespace mcnb::plain
