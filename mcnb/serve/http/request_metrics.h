#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/metrics.h"
#include "mcnb/serve/series/series_book.h"

namespace mcnb {

// The bounds of the histograms of times, in seconds.
const std::vector<double>& rank_latency_bounds();

// Counts and times of responses, by the metric label of their endpoint. Safe from many threads.
class RequestMetrics {
 public:
  struct PerLabel {
    std::array<std::atomic<std::uint64_t>, 6> by_class{};  // index 2 counts the statuses 2xx
    Histogram seconds{rank_latency_bounds()};
  };

  // Has every label of the table of endpoints, and "other" for requests that match no endpoint.
  RequestMetrics();

  // Aborts if there is no such label.
  void observe(std::string_view label, int status, double seconds);
  const std::map<std::string, PerLabel, std::less<>>& by_label() const { return by_label_; }

  // What the time series keep of them.
  ServiceTotals totals() const;

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
