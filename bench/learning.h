#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"

namespace mcnb::bench {

struct LearningBenchOptions {
  std::vector<std::string> scenarios;  // empty: all
  std::vector<std::string> policies;   // as in mcnb run; empty: every policy with its defaults
  std::uint64_t rounds = 8000;         // decisions
  std::uint64_t seeds = 2;
  std::uint64_t first_seed = 1;
  std::uint64_t threads = 0;
  std::string output = "results";
};

// How well the service's models learn: plays scenarios with the features that the service itself
// makes, beside one who knows the truth, random choices and plain Bayesian linear models. Prints a
// table of mean rewards over time for each scenario, writes bench-learning.csv and draws
// learning-SCENARIO. Throws Error.
void bench_learning(const LearningBenchOptions& options, Display& display);

}  // namespace mcnb::bench
