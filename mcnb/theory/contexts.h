#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/environment/environment.h"

namespace mcnb {

// Vectors count as parallel if 1 - cos is below this; for floats, multiples reach about 1e-14.
inline constexpr double kParallel = 1e-12;

// The inner product of two vectors. Numbers outside of a block are zero.
double inner_product(const Features& a, const Features& b);

// Arms with their expected rewards.
struct Contexts {
  // The features of one arm.
  struct Slice {
    std::size_t begin = 0;  // index in `values`
    std::size_t length = 0;
    std::uint32_t offset = 0;  // of the block in the whole vector
  };
  std::uint32_t inputs = 0;
  std::vector<float> values;
  std::vector<Slice> slices;
  std::vector<double> rewards;

  std::size_t size() const { return slices.size(); }
  Features features(std::size_t i) const {
    return {std::span(values).subspan(slices[i].begin, slices[i].length), slices[i].offset};
  }
  // Throws Error (kInput) for features that do not fit or are not finite.
  void add(const Features& features, double reward);
};

// The arms of the next `rounds` rounds.
Contexts collect_contexts(Environment& environment, std::uint64_t rounds);

// One context for each direction, with the mean reward of all contexts in that direction. Repeated
// and parallel contexts would make the kernel singular.
Contexts distinct_directions(const Contexts& contexts);

// The contexts, which must be some of `all`, with fewer numbers: their coordinates in an
// orthonormal basis of the span of `all`, for every block with more inputs than contexts. Inner
// products stay equal up to the rounding of floats. Networks behave alike: weights orthogonal to
// the span change no output, and normally distributed weights have one distribution in every
// orthonormal basis. Returns the contexts unchanged if some of their blocks overlap partly.
Contexts in_span(const Contexts& contexts, const Contexts& all);

}  // namespace mcnb
