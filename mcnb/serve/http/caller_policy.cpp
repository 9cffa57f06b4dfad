#include "mcnb/serve/http/caller_policy.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/client_address.h"
#include "mcnb/serve/http/request_parser.h"

namespace mcnb {
namespace {

// "Example.com:8080" -> "example.com", "[::1]:80" -> "::1".
std::string without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (host.starts_with('[')) {
    return lower_case(host.substr(1, std::max<std::size_t>(host.find(']'), 1) - 1));
  }
  return lower_case(host.substr(0, colon));
}

bool is_loopback_name(const std::string& host) {
  if (host == "localhost") {
    return true;
  }
  const auto address = ClientAddress::parse(host);
  return address && (address->is_ipv4() ? address->bytes[12] == 127
                                        : *address == *ClientAddress::parse("::1"));
}

// Without the port if it is the one that the scheme implies.
std::string authority(std::string_view host, std::string_view implied_port) {
  if (host.ends_with(implied_port)) {
    host.remove_suffix(implied_port.size());
  }
  return lower_case(host);
}

// Whether an origin such as "http://localhost:8080" is the host to which the request went.
bool is_same_origin(std::string_view origin, std::string_view host) {
  if (origin.starts_with("http://")) {
    return authority(origin.substr(7), ":80") == authority(host, ":80");
  }
  return origin.starts_with("https://") &&
         authority(origin.substr(8), ":443") == authority(host, ":443");
}

}  // namespace

CallerPolicy::CallerPolicy(std::string_view host_names, std::string_view origins) {
  for (const std::string_view host : list_elements(host_names)) {
    if (host.find_first_of("/ ") != std::string_view::npos) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("option host_names: expected names such as bandit.example, got "
                              "\"{}\"",
                              host));
    }
    // An address of IPv6 has colons, but no port.
    hosts_.push_back(ClientAddress::parse(host) ? lower_case(host) : without_port(host));
  }
  for (const std::string_view origin : list_elements(origins)) {
    const std::size_t scheme = origin.find("://");
    if (scheme == std::string_view::npos ||
        origin.find('/', scheme + 3) != std::string_view::npos) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("option origins: expected origins such as https://shop.example, got "
                              "\"{}\"",
                              origin));
    }
    origins_.push_back(lower_case(origin));
  }
}

bool CallerPolicy::is_named(std::string_view host) const {
  const std::string name = without_port(host);
  return is_loopback_name(name) || std::ranges::find(hosts_, name) != hosts_.end();
}

bool CallerPolicy::is_listed(std::string_view origin) const {
  return std::ranges::find(origins_, lower_case(origin)) != origins_.end();
}

std::optional<HttpResponse> CallerPolicy::preflight(const HttpRequest& head) const {
  if (!head.is_preflight || !is_listed(head.origin)) {
    return std::nullopt;
  }
  HttpResponse response{.status = 204};
  response.headers =
      "Access-Control-Allow-Methods: GET, POST, PATCH, DELETE\r\n"
      "Access-Control-Allow-Headers: Content-Type, X-API-Key, Authorization, "
      "Ocp-Apim-Subscription-Key, traceparent, tracestate\r\n"
      "Access-Control-Max-Age: 600\r\n";
  return response;
}

void CallerPolicy::allow_reading(std::string_view origin, HttpResponse& response) const {
  if (origins_.empty()) {
    return;
  }
  response.headers += "Vary: Origin\r\n";
  if (is_listed(origin)) {
    response.headers += fmt::format(
        "Access-Control-Allow-Origin: {}\r\n"
        "Access-Control-Expose-Headers: Retry-After, traceparent\r\n",
        origin);
  }
}

void CallerPolicy::check(const HttpRequest& head, bool has_keys) const {
  // Programs that speak HTTP/1.0 may send no Host; browsers always send it.
  if ((!has_keys || !hosts_.empty()) && !head.host.empty() && !is_named(head.host)) {
    refuse_request(
        ErrorCode::kForeignHost,
        fmt::format("expected localhost, an address of loopback or a name of the option "
                    "host_names in the header Host, got \"{}\"{}",
                    head.host, has_keys ? "" : "; a service with keys accepts every name"));
  }
  if ((!has_keys || !origins_.empty()) && !head.origin.empty() &&
      !is_same_origin(head.origin, head.host) && !is_listed(head.origin)) {
    refuse_request(ErrorCode::kForeignOrigin,
                   fmt::format("expected no header Origin, the service's own origin or one of the "
                               "option origins, got \"{}\"",
                               head.origin));
  }
}

void CallerPolicy::check_body(const HttpRequest& head, bool has_keys) {
  if (has_keys || !head.has_body) {
    return;
  }
  const std::string_view given = head.content_type;
  const std::string type =
      lower_case(without_blanks(given.substr(0, std::min(given.find(';'), given.size()))));
  // Browsers send neither type to other origins without asking them first.
  const bool upload = head.path == kUploadPath && type == "application/octet-stream";
  if (type != "application/json" && !upload) {
    refuse_request(ErrorCode::kBadContentType,
                   fmt::format("expected the header Content-Type: application/json, got \"{}\"; "
                               "with curl use --json",
                               given));
  }
}

}  // namespace mcnb
