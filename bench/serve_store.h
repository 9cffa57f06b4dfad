#pragma once

#include "bench/serve.h"
#include "bench/serve_parts.h"

namespace mcnb::bench {

// Measures decisions on the PostgreSQL store of the options beside a data folder: at the node that
// owns the store, and at another one that forwards to it. Throws Error.
void measure_store(const ServeBenchOptions& options, Report& report);

}  // namespace mcnb::bench
