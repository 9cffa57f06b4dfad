// The log of a model, for those who want to take it with them.

#include <fmt/core.h>

#include "mcnb/base/error.h"
#include "mcnb/logs/timestamps.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/log_stream.h"

namespace mcnb {
namespace {

// Abandons a log when nobody reads it any more.
class Reading {
 public:
  explicit Reading(std::shared_ptr<LogStream> log) : log_(std::move(log)) {}
  ~Reading() { log_->abandon(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  LogStream& log() const { return *log_; }

 private:
  std::shared_ptr<LogStream> log_;
};

std::optional<std::int64_t> time_in(const Call& call, const std::string& name) {
  const auto given = call.query.find(name);
  if (given == call.query.end()) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> time = parse_time(given->second);
  if (!time) {
    refuse_request(ErrorCode::kBadField,
                   fmt::format("expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z, got "
                               "\"{}\"",
                               given->second),
                   name);
  }
  return time;
}

LogFormat format_in(const Call& call) {
  const auto given = call.query.find("format");
  if (given == call.query.end()) {
    return LogFormat::kDsjson;
  }
  try {
    return parse_log_format(given->second);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kBadField, error.what(), "format");
  }
}

}  // namespace

Reply Handlers::show_log(const Call& call) const {
  const LogFormat format = format_in(call);
  const StoreLogOptions options{
      .model = call.model, .from = time_in(call, "from"), .to = time_in(call, "to")};
  const auto log = std::make_shared<LogStream>(store_, options, format);
  const auto reading = std::make_shared<Reading>(log);
  const auto begun = std::make_shared<bool>(false);
  Reply reply;
  reply.start = [log, begun, readers = log_readers_](const std::function<void()>& done) {
    *begun = readers->start(log, done);
    return *begun;
  };
  reply.body = [reading, begun, model = call.model] {
    if (!*begun) {
      refuse_request(
          ErrorCode::kOverloaded,
          fmt::format("{} logs are being sent already: try again later", LogReaders::kMost));
    }
    try {
      reading->log().check();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUsage) {
        refuse_request(ErrorCode::kUnknownModel, fmt::format("there is no model \"{}\"", model),
                       "model");
      }
      log_error("a log cannot be read", {{"model", model}, {"detail", error.what()}});
      refuse_request(ErrorCode::kStorageFailed, "the log cannot be read");
    }
    return std::string();
  };
  reply.stream = [reading] { return [reading] { return reading->log().next(); }; };
  reply.content_type = format == LogFormat::kCsv ? "text/csv" : "application/x-ndjson";
  return reply;
}

}  // namespace mcnb
