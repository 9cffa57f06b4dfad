#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/environment/environments.h"

namespace mcnb::bench {

struct WarmBenchOptions {
  std::vector<EnvironmentSpec> environments;
  std::string policies = "hierarchical,linucb:users=each,mcnb,neuucb-one";  // as in mcnb run
  std::uint64_t logged = 5000;                                              // rounds of the log
  std::uint64_t rounds = 5000;  // that are played after it
  std::uint64_t seeds = 10;
  double epsilon = 0.2;  // of a log that prefers one arm
  std::uint64_t threads = 0;
  std::string output = "results/bench-warm";
};

// Plays every policy cold, and after it has learned a log of random choices, and a log that prefers
// one arm (with and without importance weights), on the same rounds. Prints the regret with its
// 95 % interval and writes bench-warm.csv. Throws Error.
void bench_warm(const WarmBenchOptions& options);

}  // namespace mcnb::bench
