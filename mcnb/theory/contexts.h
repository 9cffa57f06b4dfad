#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/environment/environment.h"

namespace mcnb {

// Vectors of floats that are multiples of each other have 1 - cos of about 1e-14.
inline constexpr double kParallel = 1e-12;

// Of two vectors; only what their blocks have in common counts.
double inner_product(const Features& a, const Features& b);

// Arms with the rewards that are to be expected of them.
struct Contexts {
  struct Place {
    std::size_t begin = 0;  // in `values`
    std::size_t length = 0;
    std::uint32_t offset = 0;  // of the block in the whole vector
  };
  std::uint32_t inputs = 0;
  std::vector<float> values;
  std::vector<Place> places;
  std::vector<double> rewards;

  std::size_t size() const { return places.size(); }
  Features features(std::size_t i) const {
    return {std::span(values).subspan(places[i].begin, places[i].length), places[i].offset};
  }
  // Throws Error (kInput) for features that do not fit or are not finite.
  void add(const Features& features, double reward);
};

// All arms of the next rounds.
Contexts collect_contexts(Environment& environment, std::uint64_t rounds);

// One context for each direction; its reward is the mean of those that point there. Repeated and
// parallel contexts make the kernel singular.
Contexts distinct_directions(const Contexts& contexts);

// The contexts, some of `all`, with fewer numbers: their coordinates in an orthonormal basis of
// what `all` spans, block by block, where a block has more inputs than contexts. Inner products
// stay what they are, up to the rounding of floats. No network can tell the difference: weights
// across the span change no output, and normal ones are as likely in this basis as in any other.
// Contexts whose blocks overlap in part are returned as they are.
Contexts in_span(const Contexts& contexts, const Contexts& all);

}  // namespace mcnb
