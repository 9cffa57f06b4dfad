#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mcnb::bench {

// One request of a connection.
struct Exchange {
  std::string request;  // the whole HTTP/1.1 request
  bool counts = true;   // whether its time enters the statistics
};

struct Load {
  std::size_t connections = 1;
  double seconds = 5.0;
  std::uint64_t requests = 0;  // 0: no limit
  // Called with the index of the connection and the body of its last response (empty at first).
  std::function<Exchange(std::size_t connection, const std::string& last)> next;
};

struct LoadResult {
  std::uint64_t answers = 0;  // to requests that count
  std::uint64_t others = 0;
  double seconds = 0.0;
  double p50 = 0.0;  // seconds
  double p99 = 0.0;
  double p999 = 0.0;
  double processor_seconds = 0.0;  // CPU time of this whole process, client and server
};

// Keeps every connection busy, one request at a time, on one thread (epoll). Throws Error (kSystem)
// if a connection is lost or a response is not 2xx.
LoadResult put_load(std::uint16_t port, const Load& load);

}  // namespace mcnb::bench
