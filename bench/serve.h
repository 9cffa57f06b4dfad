#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"

namespace mcnb::bench {

struct ServeBenchOptions {
  std::uint64_t features = 20;
  std::uint64_t width = 100;
  std::uint64_t actions = 10;
  std::uint64_t groups = 200;  // 0 skips the first part
  // With a learner each, in the last part. A million of M-CNB with 20 features take 9 GB.
  std::vector<std::uint64_t> users{10'000};
  std::vector<std::string> policies{"mcnb", "hierarchical"};  // of these users' model
  std::uint64_t connections = 64;
  std::uint64_t restart_events = 1'000'000;  // 0 skips the restart
  std::uint64_t pause_rewards = 50'000;      // while the longest pause is measured; 0 skips it
  std::uint64_t threads = 0;
  double seconds = 8.0;     // per measurement
  std::string policy = "";  // extra options of mcnb: "meta_steps=1:gamma=0.2"
  std::string output = "results";
};

// Puts load on the service from a client on the same machine: durable decisions per second and
// their latency, beside SQLite alone, the HTTP server alone and the peak of the processor; then
// times a restart. Prints a table and writes bench-serve.csv. Throws Error.
void bench_serve(const ServeBenchOptions& options, Display& display);

}  // namespace mcnb::bench
