#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mcnb/serve/http/client_address.h"
#include "mcnb/serve/http/connection_limits.h"
#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/request_metrics.h"
#include "mcnb/serve/http/tls.h"

namespace mcnb {

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port
  ConnectionLimits::Limits connections;
  AddressList trusted_proxies;
  std::size_t largest_body = kLargestBody;
  std::size_t largest_upload = kLargestUpload;
  double idle_seconds = 60.0;    // between two requests, and for sending a response
  double header_seconds = 10.0;  // from its first byte to its last header; with the TLS handshake
                                 // from the beginning of the connection for its first request
  double body_seconds = 20.0;    // from its last header to the end of its body, and more for each
                                 // megabyte of an upload
};

// An HTTP/1.1 server (epoll): one thread serves all connections, and no client can block it.
// RequestParser says which requests it refuses as malformed, ConnectionLimits how many connections
// it accepts.
class HttpServer {
 public:
  struct Handler {
    // Called before the body is read. Returns an error response if the request is wrong already,
    // otherwise nullopt.
    std::function<std::optional<HttpResponse>(const HttpRequest& head)> admit;
    // Called with the whole request.
    std::function<HttpPlan(const HttpRequest& request)> plan;
    // Called several times a second; may be empty.
    std::function<void()> tick = {};
    // Called with every response that is sent, and the seconds that it took; may be empty.
    std::function<void(const HttpRequest& request, const HttpResponse& response, double seconds)>
        served = {};
  };

  // Begins to listen, with TLS if there is an identity. Borrows the metrics. Throws Error (kSystem)
  // if it cannot listen.
  HttpServer(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity,
             Handler handler, RequestMetrics& metrics);
  // Sends the responses that are ready. Requires that every plan that was started has called
  // `done`.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  // Accepts no new connections; those that are open are served once more. Requests that were
  // planned before are with whoever carries them out when it returns.
  void stop_listening();
  // New connections use this identity. Requires that the server has one. Safe from any thread.
  void use_identity(std::shared_ptr<const TlsIdentity> identity);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace mcnb
