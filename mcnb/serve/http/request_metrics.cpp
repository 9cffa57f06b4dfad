#include "mcnb/serve/http/request_metrics.h"

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/routes.h"

namespace mcnb {

const std::vector<double>& rank_latency_bounds() {
  static const std::vector<double> kBounds{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                           0.1,    0.2,   0.5,   1,     2,    5};
  return kBounds;
}

ServiceTotals RequestMetrics::totals() const {
  ServiceTotals totals;
  for (const auto& [label, counts] : by_label_) {
    for (const auto& count : counts.by_class) {
      totals.requests += count.load(std::memory_order_relaxed);
    }
    totals.errors += counts.by_class[5].load(std::memory_order_relaxed);
  }
  const Histogram& seconds = by_label_.find("rank")->second.seconds;
  check(seconds.bounds().size() < totals.latency.size(), "the series have a bin for every range");
  for (std::size_t i = 0; i <= seconds.bounds().size(); ++i) {
    totals.latency[i] = seconds.count(i);
  }
  return totals;
}

RequestMetrics::RequestMetrics() {
  by_label_[HttpPlan().metric];
  for (const Endpoint& endpoint : endpoints()) {
    by_label_[endpoint.metric];
  }
}

void RequestMetrics::observe(std::string_view label, int status, double seconds) {
  const auto found = by_label_.find(label);
  check(found != by_label_.end(), "the label is one of the table of endpoints");
  const auto status_class = static_cast<std::size_t>(std::clamp(status / 100, 0, 5));
  found->second.by_class[status_class].fetch_add(1, std::memory_order_relaxed);
  found->second.seconds.observe(seconds);
}

}  // namespace mcnb
