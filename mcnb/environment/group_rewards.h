#pragma once

#include <functional>
#include <memory>

#include "mcnb/environment/synthetic.h"

namespace mcnb {

// The true expected rewards of every group, on every topic.
class GroupRewards {
 public:
  virtual ~GroupRewards() = default;
  // values[g] = what group g expects of an item of this topic, in [0, 1].
  virtual void find(std::size_t topic, std::span<const float> features,
                    std::span<double> values) const = 0;
};

// Draws the features of a typical item of a topic into `features`.
using DrawFeatures = std::function<void(Rng& rng, std::size_t topic, std::span<float> features)>;

// Draws one reward function of the options' shape for every topic and group. Networks are scaled by
// their values for typical items, which `draw` draws.
std::unique_ptr<GroupRewards> make_group_rewards(const SyntheticOptions& options,
                                                 std::uint64_t seed, const DrawFeatures& draw);

// Fills the vector with a uniformly random direction.
void draw_unit_vector(Rng& rng, std::span<float> vector);
// Divides by the length, which must not be zero.
void make_unit_length(std::span<float> vector);
double dot(std::span<const float> a, std::span<const float> b);

}  // namespace mcnb
