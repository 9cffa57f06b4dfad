#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/numeric/network_shape.h"

namespace mcnb {

/// A feature vector: `values` at `offset`, zero elsewhere. Borrows the values.
struct Features {
  std::span<const float> values = {};
  std::uint32_t offset = 0;
};

struct Sample {
  Features features = {};
  float reward = 0.0F;
};

/// True if there is at least one feature and every feature belongs to an input.
bool features_fit(const NetworkShape& shape, const Features& features);

bool all_finite(std::span<const float> values);

/// Throws Error (kInput), naming `what`, unless the features fit the network and are finite.
void check_features(const NetworkShape& shape, const Features& features, std::string_view what);
void check_sample(const NetworkShape& shape, const Sample& sample, std::string_view what);

enum class Initialisation {
  kPaper,  ///< W_l ~ N(0, 2/m) for l < L, W_L ~ N(0, 1/m)
  /// Two equal halves with opposite signs in W_L, so that f = 0 everywhere. If m is odd, the unit
  /// that is left over has a zero in W_L.
  kSymmetric,
};

/// Random parameters with zero biases; equal seeds and numbers give equal parameters on every
/// machine. Throws Error (kUsage) for a shape that is out of range.
std::vector<float> random_network(const NetworkShape& shape, Initialisation initialisation,
                                  std::uint64_t seed, std::uint64_t number = 0);

/// f(x) and its gradient in factored form. The gradient with respect to W_l is b_l h_{l-1}^T, with
/// h_0 = x and b_L = 1, so O(d + Lm) numbers describe all of it.
struct GradientFactors {
  float value = 0.0F;              ///< f(x)
  Features features;               ///< h_0, borrowed
  std::vector<float> activations;  ///< h_1 .. h_{L-1}, each padded_width() apart
  std::vector<float> signals;      ///< b_1 .. b_{L-1}, likewise
};

/// Fills `factors` for the network at x and reuses its memory. The factors borrow the values of x.
/// Requires features that check_features accepts.
void find_gradient(const NetworkShape& shape, std::span<const float> network,
                   const Features& features, GradientFactors& factors);

/// Euclidean norm of the gradient, and of the difference of two gradients, from their factors.
double gradient_norm(const NetworkShape& shape, const GradientFactors& factors);
double gradient_distance(const NetworkShape& shape, const GradientFactors& a,
                         const GradientFactors& b);

}  // namespace mcnb
