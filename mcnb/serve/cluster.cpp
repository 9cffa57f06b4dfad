#include "mcnb/serve/cluster.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "mcnb/serve/http/routes.h"

namespace mcnb {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDrainPoll{10};
constexpr std::chrono::seconds kDrainFarewell{1};  // in which clients see that they should go

// Whether a request is for the owner of the models. All others are about the node that gets them,
// which can also send their logs: it reads the store.
bool concerns_owner(std::string_view path) {
  path = path.substr(0, path.find('?'));
  const bool log = path.ends_with("/log") && std::ranges::count(path, '/') == 4;
  return (path.starts_with("/v1/models") && !log) || path.starts_with("/personalizer/") ||
         path.starts_with(kUploadPath) || path == "/v1/backup";
}

}  // namespace

Cluster::Cluster(const Options& options, Engine& engine, Forwarder::PlanHere plan_here,
                 RequestMetrics& metrics)
    : options_(options),
      engine_(engine),
      plan_here_(std::move(plan_here)),
      metrics_(metrics),
      directory_(options.url, options.self, options.lease_seconds),
      forwarder_(
          {.name = options.self.name, .wait_seconds = options.wait_seconds},
          [this] {
            return Forwarder::Route{serves(), directory_.owner()};
          },
          plan_here_) {}

HttpPlan Cluster::plan(const HttpRequest& request) {
  if (!concerns_owner(request.path) || request.is_preflight || serves()) {
    return plan_here_(request);
  }
  if (!request.forwarded_by.empty()) {
    const ServiceError error{ErrorCode::kNotOwner, "another node serves the models", ""};
    return {{}, [response = error_response(error)] { return response; }};
  }
  metrics_.forwarded_requests.fetch_add(1, std::memory_order_relaxed);
  HttpPlan plan = forwarder_.plan(request);
  plan.metric = find_endpoint(request.method, request.path).endpoint->metric;
  return plan;
}

bool Cluster::has_others() const {
  const auto lease = static_cast<std::int64_t>(options_.lease_seconds * 1000.0);
  return std::ranges::any_of(nodes(), [&](const Node& node) {
    return node.instance != options_.self.instance && node.silent_milliseconds < lease &&
           !node.address.empty();
  });
}

void Cluster::drain(const std::function<bool()>& has_clients) {
  const auto begin = SteadyTime::now();
  const auto wait = std::chrono::duration<double>(options_.wait_seconds);
  while (has_others() && SteadyTime::now() < begin + wait) {
    const bool farewell = SteadyTime::now() < begin + kDrainFarewell && has_clients();
    if (!farewell && forwarder_.idle()) {
      break;
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
  forwarder_.close();
}

}  // namespace mcnb
