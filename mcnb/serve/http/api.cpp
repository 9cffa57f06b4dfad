#include "mcnb/serve/http/api.h"

#include <utility>

#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/routes.h"

namespace mcnb {
namespace {

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

void refuse_unless_granted(Access access) {
  switch (access) {
    case Access::kGranted:
      return;
    case Access::kNoKey:
      refuse_request(ErrorCode::kNoKey, "expected a key in the header X-API-Key");
    case Access::kUnknownKey:
      refuse_request(ErrorCode::kUnknownKey, "the key is not one of this service");
    case Access::kNotAllowed:
      refuse_request(ErrorCode::kNotAllowed, "the role of this key does not allow this");
  }
}

HttpResponse respond(const Endpoint& endpoint, const std::function<std::string()>& body) {
  HttpResponse response{endpoint.status, "", endpoint.content_type};
  const auto error = error_of(endpoint.path, [&] { response.body = body(); });
  return error ? error_response(*error) : response;
}

}  // namespace

Api::Api(Handlers handlers, ApiKeys keys)
    : handlers_(std::move(handlers)), keys_(std::move(keys)) {}

std::optional<HttpResponse> Api::admit(const HttpRequest& head) const {
  const auto error = error_of(head.path, [&] {
    const Match match = find_endpoint(head.method, head.path);
    refuse_unless_granted(keys_.check(head.key, match.endpoint->right));
  });
  return error ? std::optional(error_response(*error)) : std::nullopt;
}

HttpPlan Api::plan(const HttpRequest& request) const {
  HttpPlan plan;
  const auto error = error_of(request.path, [&] {
    Match match = find_endpoint(request.method, request.path);
    const Endpoint& endpoint = *match.endpoint;
    plan.metric = endpoint.metric;
    match.call.body = request.body;
    match.call.client = keys_.client_of(request.key, request.address);
    Reply reply = (handlers_.*endpoint.handler)(match.call);
    plan.start = std::move(reply.start);
    plan.finish = [&endpoint, body = std::move(reply.body)] { return respond(endpoint, body); };
  });
  if (error) {
    plan.finish = [response = error_response(*error)] { return response; };
  }
  return plan;
}

}  // namespace mcnb
