#pragma once

#include <string>

#include "bench/breakdown.h"
#include "bench/display.h"
#include "bench/networks.h"

namespace mcnb::bench {

// Times whole rounds of M-CNB with preset `algorithm` on a GPU, for each number of users: decisions
// and rewards as a caller sees them, the pass over all learners beside a plain read of the same
// memory, and every kernel and copy by its name. All learners differ, and about a tenth of them
// agree about an arm. Beside them PyTorch on the same GPU, if a Python with torch is given. Prints
// tables and writes bench-breakdown-cuda.csv and bench-breakdown-cuda-parts.csv. Part of `mcnb
// bench breakdown`.
void time_rounds_on_device(const BreakdownOptions& options, const std::string& python,
                           Display& display);

// The same for `mcnb bench networks`: the pass over all learners, and a step of all of them. Writes
// bench-networks-cuda.csv.
void time_networks_on_device(const NetworkBenchOptions& options, Display& display);

}  // namespace mcnb::bench
