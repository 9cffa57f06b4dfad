#pragma once

#include <cstdint>

#include "bench/serve.h"
#include "bench/serve_parts.h"

namespace mcnb::bench {

// The service with so many users who have learners of their own, all different, for each of the
// policies: decisions per second alone and beside snapshots, the memory of a learner and of
// snapshots, and the memory of users without feedback. The state is made beforehand, in the files
// of the service.
void measure_learners(const ServeBenchOptions& options, std::uint64_t users, Report& report);

}  // namespace mcnb::bench
