#pragma once

#include <span>

#include "mcnb/serve/model/model_options.h"

namespace mcnb {

// The reward of an event that got these rewards, at least one, in this order. A sum may exceed 1,
// where the model cuts it.
double aggregate_rewards(Aggregation aggregation, std::span<const float> rewards);

}  // namespace mcnb
