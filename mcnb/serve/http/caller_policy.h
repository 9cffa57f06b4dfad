#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/serve/http/http_message.h"

namespace mcnb {

// Which pages in a browser may send requests, and under which names the service may be called.
//
// Without keys everything that reaches the service may do everything, and a browser on the same
// machine reaches it for any page. So only loopback names are accepted (a name of somebody else's
// that leads to this machine is DNS rebinding), no Origin but the service's own, and bodies must be
// declared as JSON, which a page of another origin cannot send unasked.
//
// With keys a page needs a key, which no browser adds by itself, so all names and origins are
// accepted, unless the options name some.
//
// Only pages of the origins that the options name may read responses (CORS).
class CallerPolicy {
 public:
  // Lists such as "bandit.example, 10.0.0.7" and "https://shop.example". Throws Error (kUsage)
  // naming the option `host_names` or `origins`.
  CallerPolicy(std::string_view host_names, std::string_view origins);

  // Throws RequestRefused: kForeignHost, kForeignOrigin.
  void check(const HttpRequest& head, bool has_keys) const;
  // Throws RequestRefused: kBadContentType.
  static void check_body(const HttpRequest& head, bool has_keys);

  // The response to a browser that asks whether a page may send a request; nullopt if the request
  // is another one, or the page has an origin that is not listed.
  std::optional<HttpResponse> preflight(const HttpRequest& head) const;
  // Lets a page of this origin read the response if it is listed.
  void allow_reading(std::string_view origin, HttpResponse& response) const;

 private:
  bool is_named(std::string_view host) const;
  bool is_listed(std::string_view origin) const;

  std::vector<std::string> hosts_;  // in lower case, without ports
  std::vector<std::string> origins_;
};

}  // namespace mcnb
