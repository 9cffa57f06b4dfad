#pragma once

#include <cstdint>
#include <string>

#include "bench/display.h"

namespace mcnb::bench {

struct SeriesBenchOptions {
  std::string policy = "hierarchical";
  std::uint64_t slices = 40;  // pairs of runs
  std::string output = "results";
};

// What the time series behind the dashboard add to the processor time of a decision and its reward,
// in runs that alternate between a service with them and one without; and for how long the book of
// the series alone is busy, which the noise of a busy machine cannot hide. Throws Error.
void bench_series(const SeriesBenchOptions& options, Display& display);

}  // namespace mcnb::bench
