#include "mcnb/serve/http/api.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/identifiers.h"

namespace mcnb {
namespace {

constexpr std::size_t kShortDigest = 8;             // digits of a key's SHA-256 in the audit log
constexpr std::size_t kMostBytesWrittenDown = 500;  // of a request's body

// The one function that turns exceptions into errors of the API. Returns nullopt if `work` does
// not throw. The log gets the details of an unexpected exception, the caller does not.
template <class Work>
std::optional<ServiceError> error_of(const std::string& path, const Work& work) {
  try {
    work();
  } catch (const RequestRefused& refused) {
    return refused.error();
  } catch (const std::exception& error) {
    log_error("a request failed", {{"path", path}, {"detail", error.what()}});
    return ServiceError{ErrorCode::kInternal, "the request failed"};
  }
  return std::nullopt;
}

// A page may load and do only what comes from this service, and nobody may frame it.
constexpr const char* kPageHeaders =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cache-Control: no-cache\r\n";

HttpResponse respond(const Endpoint& endpoint, const Reply& reply) {
  HttpResponse response{endpoint.status, "",
                        reply.content_type == nullptr ? endpoint.content_type : reply.content_type};
  const auto error = error_of(endpoint.path, [&] {
    response.body = reply.body();
    if (reply.stream) {
      response.stream = reply.stream();
    }
  });
  if (std::string_view(endpoint.content_type).starts_with("text/") &&
      endpoint.right == Right::kNone) {
    response.headers = kPageHeaders;
  }
  return error ? error_response(*error) : response;
}

bool is_change(const Endpoint& endpoint) { return endpoint.right == Right::kAdmin; }

// Endpoints that are served when all connections but the reserved ones are taken.
bool is_essential(const Endpoint& endpoint) { return endpoint.right != Right::kDecide; }

// The first bytes of a body, without a part of a character of UTF-8.
std::string beginning(const std::string& body) {
  std::size_t size = std::min(body.size(), kMostBytesWrittenDown);
  while (size > 0 && size < body.size() && (body[size] & 0xc0) == 0x80) {
    --size;
  }
  return body.substr(0, size);
}

std::string short_digest(const std::string& digest) { return digest.substr(0, kShortDigest); }

}  // namespace

Api::Api(Handlers handlers, ApiKeys keys, CallerPolicy callers, AuditLog& audit,
         RequestMetrics& metrics)
    : handlers_(std::move(handlers)),
      callers_(std::move(callers)),
      audit_(audit),
      metrics_(metrics),
      keys_(std::make_shared<const Keys>(Keys{std::move(keys), 0})) {}

std::shared_ptr<const Api::Keys> Api::keys() const {
  const std::lock_guard lock(keys_mutex_);
  return keys_;
}

void Api::use_keys(ApiKeys keys) {
  const std::lock_guard lock(keys_mutex_);
  keys_ = std::make_shared<const Keys>(Keys{std::move(keys), keys_->generation + 1});
}

std::optional<HttpResponse> Api::admit(const HttpRequest& head) {
  const char* route = "";
  std::optional<HttpResponse> answer;
  const auto error = error_of(head.path, [&] {
    const std::shared_ptr<const Keys> keys = this->keys();
    callers_.check(head, !keys->keys.empty());
    if ((answer = callers_.preflight(head))) {
      return;
    }
    const Match match = find_endpoint(head.method, head.path);
    route = match.endpoint->path;
    check_key(head, *match.endpoint, *keys);
    CallerPolicy::check_body(head, !keys->keys.empty());
    if (head.on_reserved_connection && !is_essential(*match.endpoint)) {
      refuse_request(ErrorCode::kOverloaded, "too many connections are open");
    }
  });
  if (error) {
    answer = error_response(*error);
  }
  if (answer) {
    answer->route = route;
    callers_.allow_reading(head.origin, *answer);
  }
  return answer;
}

void Api::check_key(const HttpRequest& head, const Endpoint& endpoint, const Keys& keys) {
  const KeyVerdict verdict = keys.keys.check(head.key, endpoint.right);
  if (verdict.access == Access::kNoKey) {
    refuse_request(ErrorCode::kNoKey, "expected a key in the header X-API-Key");
  }
  if (verdict.digest.empty()) {
    return;
  }
  if (std::exchange(throttled_generation_, keys.generation) != keys.generation) {
    throttle_.forget_all();
  }
  const auto now = std::chrono::steady_clock::now();
  const bool limited = !head.from_trusted_proxy;
  if (limited && !throttle_.may_try(head.client, verdict.digest, now)) {
    metrics_.refused_keys.fetch_add(1, std::memory_order_relaxed);
    lines_.may_try(head.client, "", now);  // counts what the next line says
    refuse_request(ErrorCode::kTooManyWrongKeys,
                   "too many wrong keys came from this address: try again later");
  }
  if (verdict.access == Access::kGranted) {
    if (limited) {
      throttle_.note_right(head.client, verdict.digest, now);
    }
    return;
  }
  refuse_key(head, endpoint, verdict);
}

void Api::refuse_key(const HttpRequest& head, const Endpoint& endpoint, const KeyVerdict& verdict) {
  metrics_.refused_keys.fetch_add(1, std::memory_order_relaxed);
  const bool unknown = verdict.access == Access::kUnknownKey;
  const auto now = std::chrono::steady_clock::now();
  if (unknown && !head.from_trusted_proxy) {
    throttle_.note_wrong(head.client, now);
  }
  // Nobody can flood the log: lines are limited like wrong keys, also for keys that are known.
  if (lines_.may_try(head.client, "", now)) {
    audit_.write("a key was refused",
                 {{"reason", unknown ? "unknown" : "not allowed"},
                  {"key", verdict.name},
                  {"sha256", short_digest(verdict.digest)},
                  {"client", head.client.text()},
                  {"method", endpoint.method},
                  {"path", endpoint.path},
                  {"notWrittenBefore", std::to_string(lines_.note_wrong(head.client, now))}});
  }
  if (unknown) {
    refuse_request(ErrorCode::kUnknownKey, "the key is not one of this service");
  }
  refuse_request(ErrorCode::kNotAllowed, "the role of this key does not allow this");
}

HttpPlan Api::plan(const HttpRequest& request) {
  HttpPlan plan;
  Match match;
  const auto error = error_of(request.path, [&] {
    match = find_endpoint(request.method, request.path);
    const Endpoint& endpoint = *match.endpoint;
    plan.metric = endpoint.metric;
    Call call = match.call;
    call.body = request.body;
    call.assigned_id = request.assigned_id;
    if (!request.assigned_id.empty()) {
      check_id(request.assigned_id, "X-Mcnb-Id");
    }
    call.client = keys()->keys.client_of(request.key, request.client.group().text());
    Reply reply = (handlers_.*endpoint.handler)(call);
    plan.start = std::exchange(reply.start, {});
    plan.finish = [this, &endpoint, key = request.key, reply = std::move(reply)] {
      HttpResponse response = respond(endpoint, reply);
      if (response.stream) {
        response.stream = guarded(std::move(response.stream), key, endpoint.right);
      }
      return response;
    };
  });
  if (error) {
    plan.finish = [response = error_response(*error)] { return response; };
  } else if (is_change(*match.endpoint)) {
    // The request itself may change the keys.
    Change change{.key = keys()->keys.check(request.key, match.endpoint->right).name,
                  .client = request.client.text(),
                  .body = request.path == kUploadPath ? "" : beginning(request.body)};
    plan.finish = [this, change, match, finish = std::move(plan.finish)] {
      HttpResponse response = finish();
      write_down(change, match, response.status);
      return response;
    };
  }
  plan.finish = [this, origin = request.origin, endpoint = match.endpoint,
                 finish = std::move(plan.finish)] {
    HttpResponse response = finish();
    response.route = endpoint == nullptr ? "" : endpoint->path;
    callers_.allow_reading(origin, response);
    return response;
  };
  return plan;
}

void Api::finish_forwarded(const HttpRequest& request, HttpResponse& response) const {
  if (*response.route == '\0') {  // otherwise this node has planned it in the end
    response.route = find_endpoint(request.method, request.path).endpoint->path;
    callers_.allow_reading(request.origin, response);
  }
}

// A stream ends when its key no longer allows it.
BodyStream Api::guarded(BodyStream stream, std::string key, Right right) const {
  return [this, stream = std::move(stream), key = std::move(key), right,
          generation = keys()->generation]() mutable -> std::optional<std::string> {
    const std::shared_ptr<const Keys> now = keys();
    if (now->generation != generation) {
      generation = now->generation;
      if (now->keys.check(key, right).access != Access::kGranted) {
        return std::nullopt;
      }
    }
    return stream();
  };
}

// Users' names stay out: forgetting a user could not erase them.
void Api::write_down(const Change& change, const Match& match, int status) const {
  const Endpoint& endpoint = *match.endpoint;
  const bool is_user = std::string_view(endpoint.path).find("/users/") != std::string_view::npos;
  const std::string& id = match.call.id;
  audit_.write("a change", {{"key", change.key},
                            {"client", change.client},
                            {"method", endpoint.method},
                            {"path", endpoint.path},
                            {"model", match.call.model},
                            {"id", is_user ? "" : id},
                            {"userSha256", is_user ? short_digest(sha256_hex(id)) : ""},
                            {"body", change.body},
                            {"status", std::to_string(status)}});
}

}  // namespace mcnb
