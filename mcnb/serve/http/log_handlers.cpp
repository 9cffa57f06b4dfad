#include <fmt/core.h>

#include "mcnb/base/error.h"
#include "mcnb/logs/timestamps.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/log_stream.h"
#include "mcnb/serve/http/query.h"

namespace mcnb {
namespace {

// What the query of a request for a log says.
struct LogQuery {
  StoreLogOptions options;
  LogFormat format = LogFormat::kDsjson;
};

std::int64_t time_in(const QueryField& field) {
  const std::optional<std::int64_t> time = parse_time(field.value);
  if (!time) {
    refuse_request(ErrorCode::kBadField,
                   "expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z", field.name);
  }
  return *time;
}

LogFormat format_in(const QueryField& field) {
  try {
    return parse_log_format(field.value);
  } catch (const Error&) {
    refuse_request(ErrorCode::kBadField, "expected dsjson, jsonl or csv", field.name);
  }
}

LogQuery read_log_query(const Call& call) {
  LogQuery query;
  query.options.model = call.model;
  for (const QueryField& field : query_fields(call.query)) {
    if (field.name == "format") {
      query.format = format_in(field);
    } else if (field.name == "from") {
      query.options.from = time_in(field);
    } else if (field.name == "to") {
      query.options.to = time_in(field);
    } else {
      refuse_request(ErrorCode::kBadField, "expected format, from or to", field.name);
    }
  }
  return query;
}

const char* content_type_of(LogFormat format) {
  return format == LogFormat::kCsv ? "text/csv" : "application/x-ndjson";
}

}  // namespace

Reply Handlers::show_log(const Call& call) const {
  const LogQuery query = read_log_query(call);
  // The engine knows whether there is such a model.
  Reply reply = on_engine(call, Use::kRead, [](const EngineThread&) { return std::string(); });
  reply.content_type = content_type_of(query.format);
  reply.stream = LogStream::start(folder_, query.options, query.format, log_streams_);
  if (reply.stream == nullptr) {
    refuse_request(ErrorCode::kOverloaded,
                   fmt::format("{} logs are being read already", LogStreamLimit::kMost));
  }
  return reply;
}

}  // namespace mcnb
