#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/request_metrics.h"

namespace mcnb {

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port
  std::size_t most_connections = 1024;
  std::size_t largest_body = kLargestBody;
  double idle_seconds = 60.0;    // until a request begins
  double header_seconds = 10.0;  // from its first line to its last header
  double body_seconds = 20.0;    // from its last header to the end of its body
  std::string certificate;       // PEM files; set both or neither
  std::string private_key;
};

// An HTTP server (libmicrohttpd): one thread serves all connections, and no client can block it.
class HttpServer {
 public:
  struct Handler {
    // Called before the body is read. Returns an error response if the request is wrong already,
    // otherwise nullopt.
    std::function<std::optional<HttpResponse>(const HttpRequest& head)> admit;
    // Called with the whole request.
    std::function<HttpPlan(const HttpRequest& request)> plan;
  };

  // Begins to listen. Borrows the metrics. Throws Error: kSystem if it cannot listen, kUsage for
  // bad options.
  HttpServer(const HttpOptions& options, Handler handler, RequestMetrics& metrics);
  // Requires that every plan that was started has called `done`.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  // Accepts no new connections; those that are open are still served.
  void stop_listening();

 private:
  class Daemon;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace mcnb
