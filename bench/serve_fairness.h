#pragma once

#include "bench/serve.h"
#include "bench/serve_parts.h"

namespace mcnb::bench {

// The latency of small decisions, alone and while a client with another key asks for decisions
// among a thousand actions.
void measure_fairness(const ServeBenchOptions& options, Report& report);

}  // namespace mcnb::bench
