#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mcnb::bench {

// What a connection sends next, and what it makes of the answer's body.
struct Exchange {
  std::string request;  // whole, as HTTP/1.1
  bool counts = true;   // whether its time is kept
};

struct Load {
  std::size_t connections = 1;
  double seconds = 5.0;
  std::uint64_t requests = 0;  // 0: as many as fit
  // Called with the number of the connection and the body of its last answer (empty at first).
  std::function<Exchange(std::size_t connection, const std::string& last)> next;
};

struct LoadResult {
  std::uint64_t answers = 0;  // of exchanges that count
  std::uint64_t others = 0;
  double seconds = 0.0;
  double p50 = 0.0;  // seconds
  double p99 = 0.0;
  double processor_seconds = 0.0;  // that this whole program used meanwhile
};

// Keeps every connection busy, one request at a time, on one thread (epoll). Throws Error (kSystem)
// where a connection is lost or an answer is not 2xx.
LoadResult put_load(std::uint16_t port, const Load& load);

}  // namespace mcnb::bench
