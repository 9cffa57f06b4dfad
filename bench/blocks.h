#pragma once

#include <cstdint>
#include <string>

#include "bench/display.h"
#include "mcnb/environment/environments.h"

namespace mcnb::bench {

struct BlockBenchOptions {
  EnvironmentSpec environment{.name = "mnist"};
  std::uint64_t rounds = 2'000;
  std::string output = "results";
};

// Plays M-CNB on labelled samples, whose arms are long blocks of features, on one thread: with the
// adaptations of the meta-learner as they are, and with all of them on copies of its weights;
// beside NeuUCB-ONE. Prints where the seconds go and writes bench-blocks.csv. Throws Error for
// options out of range, and for an environment without labelled samples.
void bench_blocks(const BlockBenchOptions& options, Display& display);

}  // namespace mcnb::bench
