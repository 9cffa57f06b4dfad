#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/theory/contexts.h"

namespace mcnb::theory_cases {

inline Contexts empty_contexts(std::uint32_t inputs) {
  return {.inputs = inputs, .values = {}, .slices = {}, .rewards = {}};
}

// Unit vectors of random direction, with rewards in [0, 1].
inline Contexts draw_contexts(std::size_t count, std::uint32_t inputs, std::uint64_t seed) {
  Contexts contexts = empty_contexts(inputs);
  Rng rng(seed, Stream::kTest);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> x(inputs);
    double squares = 0.0;
    for (float& value : x) {
      value = static_cast<float>(rng.normal());
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    for (float& value : x) {
      value /= static_cast<float>(std::sqrt(squares));
    }
    contexts.add({x}, rng.uniform());
  }
  return contexts;
}

inline NetworkShape shape_of(std::uint32_t inputs, std::uint32_t width, std::uint32_t depth) {
  return {.inputs = inputs, .width = width, .depth = depth};
}

}  // namespace mcnb::theory_cases
