#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/metrics.h"

namespace mcnb {

// Counts and times of responses, by the metric label of their endpoint. Safe from many threads.
class RequestMetrics {
 public:
  struct PerLabel {
    std::array<std::atomic<std::uint64_t>, 6> by_class{};  // index 2 counts the statuses 2xx
    Histogram seconds{{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5}};
  };

  // Has every label of the table of endpoints, and "other" for requests that match no endpoint.
  RequestMetrics();

  // Aborts if there is no such label.
  void observe(std::string_view label, int status, double seconds);
  const std::map<std::string, PerLabel, std::less<>>& by_label() const { return by_label_; }

  std::atomic<std::int64_t> connections{0};            // open ones
  std::atomic<std::uint64_t> refused_connections{0};   // beyond the limits
  std::atomic<std::uint64_t> replaced_connections{0};  // ended to make room for others
  std::atomic<std::uint64_t> failed_handshakes{0};     // of TLS
  std::atomic<std::uint64_t> malformed_requests{0};
  std::atomic<std::uint64_t> refused_keys{0};
  std::atomic<std::uint64_t> forwarded_requests{0};  // to the node that serves, or kept for it

 private:
  std::map<std::string, PerLabel, std::less<>> by_label_;  // its keys never change
};

}  // namespace mcnb
