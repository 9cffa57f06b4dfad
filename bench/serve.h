#pragma once

#include <cstdint>
#include <string>

namespace mcnb::bench {

struct ServeBenchOptions {
  std::uint64_t features = 20;
  std::uint64_t width = 100;
  std::uint64_t actions = 10;
  std::uint64_t groups = 200;
  std::uint64_t users = 10'000;  // with a learner each, in the second part; 0 leaves it out
  std::uint64_t connections = 64;
  std::uint64_t restart_events = 1'000'000;  // 0 leaves the restart out
  std::uint64_t threads = 0;
  double seconds = 8.0;     // of each measurement
  std::string policy = "";  // more options of mcnb: "meta_steps=1:gamma=0.2"
  std::string output = "results";
};

// The service under load from a client on the same machine: durable decisions per second and their
// times, beside what SQLite alone commits, what the HTTP library answers, and what the processor
// can compute; then a restart. Prints a table and writes bench-serve.csv. Throws Error.
void bench_serve(const ServeBenchOptions& options);

}  // namespace mcnb::bench
