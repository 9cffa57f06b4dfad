#include "mcnb/serve/http/request_metrics.h"

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/routes.h"

namespace mcnb {

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
