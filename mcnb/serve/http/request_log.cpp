#include "mcnb/serve/http/request_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

// A trace id stands between the first two dashes of a traceparent.
std::string trace_id(const std::string& traceparent) {
  constexpr std::size_t kBegin = 3;
  constexpr std::size_t kDigits = 32;
  return traceparent.empty() ? "" : traceparent.substr(kBegin, kDigits);
}

}  // namespace

bool RequestLog::may_write(Rate& rate, Time now) const {
  constexpr double kSeconds = 0.2;  // of lines that may come at once
  const double gained = lines_per_second_ * std::chrono::duration<double>(now - rate.since).count();
  rate.lines = std::min(rate.lines + gained, std::max(lines_per_second_ * kSeconds, 1.0));
  rate.since = now;
  if (rate.lines < 1.0) {
    ++rate.left_out;
    return false;
  }
  rate.lines -= 1.0;
  return true;
}

void RequestLog::write(const HttpRequest& request, const HttpResponse& response, double seconds,
                       Time now) {
  Rate& rate = response.status >= 400 ? failed_ : answered_;
  if (lines_per_second_ == 0.0 || !may_write(rate, now)) {
    return;
  }
  const std::string left_out = std::to_string(std::exchange(rate.left_out, 0));
  const std::string status = std::to_string(response.status);
  const std::string milliseconds = fmt::format("{:.3f}", 1000.0 * seconds);
  const std::string trace = trace_id(request.traceparent);
  if (with_ids_) {
    log_info("request", {{"method", request.method},
                         {"path", request.path},
                         {"client", request.client.text()},
                         {"status", status},
                         {"milliseconds", milliseconds},
                         {"trace", trace},
                         {"notWrittenBefore", left_out}});
  } else {
    log_info("request", {{"method", request.method},
                         {"path", response.route},
                         {"status", status},
                         {"milliseconds", milliseconds},
                         {"trace", trace},
                         {"notWrittenBefore", left_out}});
  }
}

}  // namespace mcnb
