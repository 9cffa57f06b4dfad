#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/forwarder.h"
#include "mcnb/serve/http/request_metrics.h"
#include "mcnb/serve/store/postgres/node_directory.h"

namespace mcnb {

// One of several nodes on a PostgreSQL store. The one with the lease computes; the others send it
// what they are asked, and take over when it goes. All methods are safe from any thread.
class Cluster {
 public:
  struct Options {
    std::string url;
    Node self;  // instance and name
    double lease_seconds = 5.0;
    double wait_seconds = 10.0;  // that a request waits for a node that serves
    double preload_bytes = 1e8;  // of models, above which the next owner loads them ahead
  };

  // Adds what the node that a client asked says in the head of another node's response.
  using Finish = std::function<void(const HttpRequest& request, HttpResponse& response)>;

  // Borrows the engine and the metrics. `plan_here` plans a request for it.
  Cluster(const Options& options, Engine& engine, Forwarder::PlanHere plan_here,
          Finish finish_forwarded, RequestMetrics& metrics);

  // Plans a request: here, or at the node that serves.
  HttpPlan plan(const HttpRequest& request);
  // Other nodes reach this one at this address.
  void announce(const std::string& address) { directory_.announce(address); }
  std::vector<Node> nodes() const { return directory_.nodes(); }

  // From now on requests about models are for the next owner. Call it before the engine stops. If
  // the models are large, another node loads them first, while this one goes on.
  void hand_over();
  // Once the engine has stopped: waits until the next owner has answered what came here, and for a
  // moment until clients have gone (`has_clients`). Does not wait if there is no other node.
  void drain(const std::function<bool()>& has_clients);

 private:
  bool serves() const { return !handing_over_.load() && engine_.ready(); }
  // Another node that was heard of lately.
  bool is_other(const Node& node) const;
  bool has_others() const;
  void wait_for_preload();

  const Options options_;
  Engine& engine_;
  Forwarder::PlanHere plan_here_;
  Finish finish_forwarded_;
  std::atomic<bool> handing_over_{false};
  RequestMetrics& metrics_;
  NodeDirectory directory_;
  Forwarder forwarder_;
};

}  // namespace mcnb
