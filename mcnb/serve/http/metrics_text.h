#pragma once

#include <string>

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/request_metrics.h"

namespace mcnb {

// All metrics of the service, in the text format of Prometheus.
std::string metrics_text(const RequestMetrics& requests, const Metrics& metrics,
                         const Engine& engine);

}  // namespace mcnb
