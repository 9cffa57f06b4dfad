#pragma once

#include <cstdint>
#include <string>

#include "bench/display.h"

namespace mcnb::bench {

struct ChallengersBenchOptions {
  std::string policy = "hierarchical";  // which answers
  std::string challenger = "linucb";
  std::uint64_t slices = 40;       // pairs of runs; 0 skips the cost
  std::uint64_t decisions = 8000;  // 0 skips what challengers learn
  std::uint64_t seeds = 4;
  std::string output = "results";
};

// What a challenger adds to the processor time of a decision, in runs that alternate between a
// model with it and one without; then what challengers learn from the answers of another policy,
// with both weightings and beside the same policy that answers itself, and whether the estimates of
// what they would earn hold the truth. Shows tables and writes bench-challengers.csv. Throws
// Error.
void bench_challengers(const ChallengersBenchOptions& options, Display& display);

}  // namespace mcnb::bench
