#pragma once

#include <functional>
#include <memory>

#include "mcnb/environment/synthetic.h"

namespace mcnb {

// Draws a typical item of a topic into the given place.
using DrawFeatures = std::function<void(Rng& rng, std::size_t topic, std::span<float> features)>;

// The reward functions of a world: for every topic and group one, at random, of the shape that the
// options ask for. Networks are scaled to what they say about typical items.
std::unique_ptr<GroupRewards> make_group_rewards(const SyntheticOptions& options,
                                                 std::uint64_t seed, const DrawFeatures& draw);

// A uniformly random direction.
void draw_unit_vector(Rng& rng, std::span<float> vector);
// Divides by the length, which must not be zero.
void make_unit_length(std::span<float> vector);
double dot(std::span<const float> a, std::span<const float> b);

}  // namespace mcnb
