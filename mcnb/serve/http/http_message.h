#pragma once

#include <functional>
#include <optional>
#include <string>

#include "mcnb/serve/engine/service_error.h"
#include "mcnb/serve/http/client_address.h"

namespace mcnb {

inline constexpr std::size_t kLargestBody = std::size_t{1} << 20;  // bytes of a request
// What is sent here may be larger: a saved policy or a log, from which a model begins.
inline constexpr const char* kUploadPath = "/v1/uploads";
inline constexpr std::size_t kLargestUpload = std::size_t{256} << 20;

struct HttpRequest {
  std::string method;
  std::string path;                 // as it was sent: escaped, with its query
  std::string key;                  // the API key, whichever header carried it; empty if none did
  ClientAddress client;             // behind trusted proxies: the address that they name
  bool from_trusted_proxy = false;  // the client is a trusted proxy itself
  std::string host;                 // headers; empty if the request has none
  std::string origin;
  std::string content_type;
  std::string traceparent;    // of W3C Trace Context; empty if there is none, or a malformed one
  bool is_preflight = false;  // a browser asks whether a page of another origin may send a request
  std::string forwarded_by;   // the node that has sent the request on; empty: a client sent it
  std::string assigned_id;    // which that node gave to an event or a reward, in case it has none
  bool has_body = false;
  bool on_reserved_connection = false;  // may only ask for the health or administer the service
  std::string body;
};

// The next piece of a body that is sent while it comes into being. Called several times a second;
// returns nothing new as an empty text, and nullopt at the end.
using BodyStream = std::function<std::optional<std::string>()>;

struct HttpResponse {
  int status = 200;
  std::string body;
  const char* content_type = "application/json";
  int retry_after = 0;     // seconds, for the header Retry-After; 0 means that the header is absent
  std::string allow;       // methods, for the header Allow; empty means that the header is absent
  std::string headers;     // further lines of the head, each with its CR and LF
  const char* route = "";  // the path of the endpoint, with placeholders; empty if none was found
  BodyStream stream;       // if set, it gives what follows `body`
};

// The response to a request that failed: status, headers and JSON follow from the error code.
HttpResponse error_response(const ServiceError& error);

// How the server obtains the response to one request. If `start` is set, the server calls it first.
// `start` returns true and calls `done` exactly once, on any thread, when the response can be made;
// or it returns false and never calls `done`. In all cases the server then calls `finish`, on its
// own thread; if the client has gone in between, it may drop the plan instead. Without `start` it
// calls `finish` at once.
struct HttpPlan {
  std::function<bool(std::function<void()> done)> start;
  std::function<HttpResponse()> finish;
  const char* metric = "other";  // value of the label `route` in /metrics
};

}  // namespace mcnb
