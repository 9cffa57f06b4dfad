#pragma once

#include "bench/serve.h"
#include "bench/serve_parts.h"

// The parts of `mcnb bench serve` that use the engine without HTTP.
namespace mcnb::bench {

// Fills a log and times a restart. It forks, which is safe only while there are no other threads.
void time_restart(const ServeBenchOptions& options, Report& report);

// The longest time for which the computing thread is busy with one batch, while `hierarchical`
// learns and fits the rewards of many users beside the requests.
void find_longest_pause(const ServeBenchOptions& options, Report& report);

}  // namespace mcnb::bench
