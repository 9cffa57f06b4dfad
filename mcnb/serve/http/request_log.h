#pragma once

#include <chrono>
#include <cstdint>

#include "mcnb/serve/http/http_message.h"

namespace mcnb {

// Writes a line into the log for each request that was answered, so many in a second at most:
// beyond that, lines are left out evenly and counted in the next one. Requests that failed have a
// rate of their own, so that those which succeed do not crowd them out. A line names the endpoint,
// never a user or an event, unless the ids are wanted. For one thread.
class RequestLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `lines_per_second` 0: no lines.
  RequestLog(double lines_per_second, bool with_ids)
      : lines_per_second_(lines_per_second), with_ids_(with_ids) {}

  // `seconds`: from the request's first byte to its response.
  void write(const HttpRequest& request, const HttpResponse& response, double seconds, Time now);

 private:
  // How many lines may be written now.
  struct Rate {
    double lines = 1.0;
    Time since;
    std::uint64_t left_out = 0;
  };
  bool may_write(Rate& rate, Time now) const;

  double lines_per_second_;
  bool with_ids_;
  Rate answered_;
  Rate failed_;  // with a status of 400 or more
};

}  // namespace mcnb
