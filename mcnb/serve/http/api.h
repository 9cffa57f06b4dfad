#pragma once

#include <optional>

#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/http_message.h"

namespace mcnb {

// The API behind the HTTP server: finds the endpoint of a request, checks its key, calls its
// handler, and turns whatever is thrown on the way into an error response.
class Api {
 public:
  Api(Handlers handlers, ApiKeys keys);

  // For a request whose body has not been read yet. Returns an error response if the path, the
  // method or the key is wrong, otherwise nullopt.
  std::optional<HttpResponse> admit(const HttpRequest& head) const;
  // For a request that was admitted. Never throws for what the request says.
  HttpPlan plan(const HttpRequest& request) const;

 private:
  Handlers handlers_;
  ApiKeys keys_;
};

}  // namespace mcnb
