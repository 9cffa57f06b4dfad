#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"

namespace mcnb::bench {

struct NetworkBenchOptions {
  std::vector<std::uint64_t> users{500, 5'000, 20'000, 200'000, 1'000'000};
  std::vector<std::uint64_t> features{10, 20};
  std::uint64_t width = 100;
  std::uint64_t arms = 10;
  std::uint64_t threads = 2;
  double seconds = 1.0;               // per case, for each of the things timed
  bool peer = true;                   // also time PyTorch, where it is installed
  std::uint64_t peer_users = 20'000;  // PyTorch is timed up to so many users: more take minutes
  std::string output = "results";
};

// Times the network pool against the machine's limits and PyTorch; prints a table and writes
// bench-networks.csv. Throws Error for options out of range.
void bench_networks(const NetworkBenchOptions& options, Display& display);

}  // namespace mcnb::bench
