#pragma once

#include <cstddef>
#include <cstdint>

namespace mcnb {

/// The network of the paper: f(x) = W_L s(W_{L-1} ... s(W_1 x)), s = ReLU; biases are optional. Its
/// parameters are one vector: W_1, ..., W_L one after the other. Row i of W_l holds the weights
/// from input i to all outputs, so that a block of features uses consecutive rows. With biases each
/// W_l has one more row, for an input that is always 1.
struct NetworkShape {
  static constexpr std::uint32_t kMaxInputs = 1U << 24;
  static constexpr std::uint32_t kMaxWidth = 1U << 14;
  static constexpr std::uint32_t kMaxDepth = 64;
  static constexpr std::uint64_t kMaxParameters = std::uint64_t{1} << 31;

  std::uint32_t inputs = 0;   ///< d in the paper
  std::uint32_t width = 100;  ///< m
  std::uint32_t depth = 2;    ///< L, the number of weight matrices
  bool biases = false;

  bool operator==(const NetworkShape&) const = default;

  /// Throws Error (kUsage) naming the field that is out of its range.
  void validate() const;

  std::size_t parameter_count() const {
    const std::size_t extra = biases ? 1 : 0;
    return (inputs + extra) * width + (depth - 2) * (width + extra) * width + width + extra;
  }

  /// Offset of W_layer in the parameters, layer = 1 .. depth.
  std::size_t layer_offset(std::uint32_t layer) const {
    const std::size_t extra = biases ? 1 : 0;
    return layer == 1 ? 0 : (inputs + extra) * width + (layer - 2) * (width + extra) * width;
  }

  std::size_t layer_inputs(std::uint32_t layer) const { return layer == 1 ? inputs : width; }

  /// Number of floats for one hidden layer, rounded up to whole vectors.
  std::size_t padded_width() const { return (width + std::size_t{15}) / 16 * 16; }

  /// Number of floats for h_1 .. h_{L-1}, or for b_1 .. b_{L-1}.
  std::size_t hidden_count() const { return (depth - 1) * padded_width(); }
};

}  // namespace mcnb
