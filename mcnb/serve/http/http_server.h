#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mcnb/serve/engine/metrics.h"
#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

struct HttpRequest {
  std::string method;
  std::string path;  // as it was sent: escaped, with its query
  std::string key;   // of the API, from whichever header
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string body;
  const char* content_type = "application/json";
  int retry_after = 0;  // seconds; 0: says nothing
  std::string allow;    // methods, for status 405
};

// How a request is going to be answered. `start` begins what takes time and calls `done`, once, on
// any thread, or returns false and never calls it; `finish` then makes the answer, on the thread of
// the server. Without `start` it is called at once.
struct HttpPlan {
  Route route = Route::kOther;
  std::function<bool(std::function<void()> done)> start;
  std::function<HttpAnswer()> finish;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any that is free
  std::size_t most_connections = 1024;
  std::size_t largest_body = std::size_t{1} << 20;
  double idle_seconds = 60.0;    // until a request begins
  double header_seconds = 10.0;  // from its first line to its last header
  double body_seconds = 20.0;    // from there to the end of its body
  std::string certificate;       // files, PEM; both or neither
  std::string private_key;
};

// An HTTP server (libmicrohttpd): one thread for all connections, which nobody can hold up.
class HttpServer {
 public:
  struct Handler {
    // Before the body is read: an answer where the request cannot be meant, or nothing.
    std::function<std::optional<HttpAnswer>(const HttpRequest& head)> admit;
    std::function<HttpPlan(const HttpRequest& request)> plan;
  };

  // Listens. Throws Error (kSystem) where it cannot, (kUsage) for bad options.
  HttpServer(const HttpOptions& options, Handler handler, Metrics& metrics);
  // All that was started must be done.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  // Takes no new connections.
  void close_door();

 private:
  class Daemon;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace mcnb
