#include "mcnb/serve/cluster.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/routes.h"

namespace mcnb {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDrainPoll{10};
constexpr std::chrono::seconds kDrainFarewell{1};  // in which clients see that they should go
// For the next owner to load the models; systemd and others kill a service that stops for longer
// than one and a half to two minutes.
constexpr std::chrono::seconds kPreloadPatience{60};

// Whether a request is for the owner of the models. All others are about the node that gets them,
// which can also send their logs: it reads the store.
bool concerns_owner(std::string_view path) {
  path = path.substr(0, path.find('?'));
  const bool log = path.ends_with("/log") && std::ranges::count(path, '/') == 4;
  return (path.starts_with("/v1/models") && !log) || path.starts_with("/personalizer/") ||
         path.starts_with(kUploadPath) || path == "/v1/series" || path == "/v1/backup";
}

}  // namespace

Cluster::Cluster(const Options& options, Engine& engine, Forwarder::PlanHere plan_here,
                 Finish finish_forwarded, RequestMetrics& metrics)
    : options_(options),
      engine_(engine),
      plan_here_(std::move(plan_here)),
      finish_forwarded_(std::move(finish_forwarded)),
      metrics_(metrics),
      directory_(options.url, options.self, options.lease_seconds,
                 [this](bool owner_leaves) {
                   engine_.load_ahead(owner_leaves);
                   return engine_.loaded_ahead();
                 }),
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
  HttpRequest head = request;
  head.body.clear();
  plan.finish = [this, head = std::move(head), finish = std::move(plan.finish)] {
    HttpResponse response = finish();
    finish_forwarded_(head, response);
    return response;
  };
  return plan;
}

bool Cluster::is_other(const Node& node) const {
  const auto lease = static_cast<std::int64_t>(options_.lease_seconds * 1000.0);
  return node.instance != options_.self.instance && node.silent_milliseconds < lease &&
         !node.address.empty();
}

bool Cluster::has_others() const {
  return std::ranges::any_of(nodes(), [&](const Node& node) { return is_other(node); });
}

void Cluster::hand_over() {
  double bytes = 0.0;
  for (const ModelReport& report : engine_.reports()) {
    bytes += static_cast<double>(report.memory_bytes);
  }
  if (serves() && bytes > options_.preload_bytes && has_others()) {
    wait_for_preload();
  }
  handing_over_ = true;
}

// A node that loads the models ahead needs no snapshots at the end. If none can, for example
// because all are of another kind, this one writes them.
void Cluster::wait_for_preload() {
  log_info("another node loads the models");
  directory_.announce_leaving();
  const auto end = SteadyTime::now() + kPreloadPatience;
  while (serves() && has_others() && SteadyTime::now() < end) {
    if (std::ranges::any_of(nodes(),
                            [&](const Node& node) { return node.loaded && is_other(node); })) {
      engine_.leave_without_snapshots();
      return;
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
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
