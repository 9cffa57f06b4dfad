#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"

namespace mcnb::bench {

struct PolicyBenchOptions {
  std::vector<std::uint64_t> users{50, 20'000};
  std::vector<std::uint64_t> features{10, 20};
  std::uint64_t rounds = 10'000;
  std::string policies;   // as in mcnb run; empty: every policy, the important ones in their forms
  double seconds = 20.0;  // after which a policy's rounds are cut short, and extrapolated
  std::uint64_t threads = 2;
  bool peer = true;
  std::uint64_t peer_users = 50;
  std::string output = "results";
};

// Plays every policy in a linear world. Prints rounds per second, the mean time of a round with all
// its work, the median time of an early and of a late round (which shows whether rounds become
// slower), memory and training steps, beside plain NumPy and PyTorch scripts of some policies.
void bench_policies(const PolicyBenchOptions& options, Display& display);

}  // namespace mcnb::bench
