#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/http/audit_log.h"
#include "mcnb/serve/http/caller_policy.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/key_throttle.h"
#include "mcnb/serve/http/routes.h"

namespace mcnb {

// The API behind the HTTP server: finds the endpoint of a request, decides whether the caller may
// use it, calls its handler, writes down what administrators change, and turns whatever is thrown
// on the way into an error response.
class Api {
 public:
  // Borrows the audit log and the metrics.
  Api(Handlers handlers, ApiKeys keys, CallerPolicy callers, AuditLog& audit,
      RequestMetrics& metrics);

  // For a request whose body has not been read yet. Returns an error response if the path, the
  // method, the caller or the key is wrong, otherwise nullopt. For one thread.
  std::optional<HttpResponse> admit(const HttpRequest& head);
  // For a request that was admitted. Never throws for what the request says.
  HttpPlan plan(const HttpRequest& request);

  // Requests that are admitted from now on need one of these keys. Safe from any thread.
  void use_keys(ApiKeys keys);

 private:
  struct Keys {
    ApiKeys keys;
    std::uint64_t generation = 0;
  };

  std::shared_ptr<const Keys> keys() const;
  void check_key(const HttpRequest& head, const Endpoint& endpoint, const Keys& keys);
  [[noreturn]] void refuse_key(const HttpRequest& head, const Endpoint& endpoint,
                               const KeyVerdict& verdict);
  BodyStream guarded(BodyStream stream, std::string key, Right right) const;
  // What is written down of a change, besides its endpoint.
  struct Change {
    std::string key;  // its name
    std::string client;
    std::string body;  // its beginning; empty for uploads, which name users
  };
  void write_down(const Change& change, const Match& match, int status) const;

  Handlers handlers_;
  CallerPolicy callers_;
  AuditLog& audit_;
  RequestMetrics& metrics_;
  mutable std::mutex keys_mutex_;
  std::shared_ptr<const Keys> keys_;
  KeyThrottle throttle_;
  KeyThrottle lines_;                       // of the audit log about refused keys
  std::uint64_t throttled_generation_ = 0;  // of the keys that the throttle knows
};

}  // namespace mcnb
