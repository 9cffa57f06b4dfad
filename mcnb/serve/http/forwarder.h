#pragma once

#include <functional>
#include <memory>

#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/nodes.h"

namespace mcnb {

// Carries requests out where the models are: sends them to the node that serves, over connections
// that it keeps, and returns its responses. While no node serves, requests wait. A request whose
// response never came is sent again if that is harmless: events and rewards without an id get one
// first. All methods are safe from any thread.
class Forwarder {
 public:
  // Where requests can be carried out at the moment: here, at another node, or nowhere.
  struct Route {
    bool here = false;
    std::shared_ptr<const Node> node;
  };
  struct Options {
    std::string name;            // of this node
    double wait_seconds = 10.0;  // for a node that serves
  };
  using FindRoute = std::function<Route()>;
  using PlanHere = std::function<HttpPlan(const HttpRequest& request)>;

  // Both functions are called on the forwarder's thread.
  Forwarder(Options options, FindRoute find_route, PlanHere plan_here);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  HttpPlan plan(const HttpRequest& request);
  // True if no request waits for its response.
  bool idle() const;
  // Requests that still wait, and those that come later, get an error.
  void close();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace mcnb
