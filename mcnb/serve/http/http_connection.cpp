#include "mcnb/serve/http/http_connection.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <array>
#include <ctime>
#include <utility>

#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

constexpr int kStepsAtOnce = 4;  // before other connections have their turn
constexpr std::size_t kReadBytes = 16 * 1024;
constexpr double kGoodbyeSeconds = 2.0;
constexpr double kLeastUploadRate = 1e5;  // bytes per second
constexpr double kReservedSeconds = 2.0;  // for the request on a reserved connection

// The API key of a request: the header of the retired service wins over ours, a bearer token comes
// last.
std::string_view key_of(const RequestHead& head) {
  constexpr std::string_view kBearer = "bearer ";
  for (const char* name : {"ocp-apim-subscription-key", "x-api-key"}) {
    if (const std::string_view key = head.header(name); !key.empty()) {
      return key;
    }
  }
  const std::string_view given = head.header("authorization");
  return lower_case(given.substr(0, kBearer.size())) == kBearer
             ? without_blanks(given.substr(kBearer.size()))
             : std::string_view();
}

// All X-Forwarded-For headers as one list.
std::string forwarded_for(const RequestHead& head) {
  std::string list;
  for (const auto& [name, value] : head.headers) {
    if (name == "x-forwarded-for") {
      list += (list.empty() ? "" : ",") + value;
    }
  }
  return list;
}

std::string_view reason_of(int status) {
  constexpr std::array kReasons{
      std::pair{200, "OK"},
      std::pair{201, "Created"},
      std::pair{204, "No Content"},
      std::pair{400, "Bad Request"},
      std::pair{401, "Unauthorized"},
      std::pair{403, "Forbidden"},
      std::pair{404, "Not Found"},
      std::pair{405, "Method Not Allowed"},
      std::pair{409, "Conflict"},
      std::pair{410, "Gone"},
      std::pair{413, "Content Too Large"},
      std::pair{415, "Unsupported Media Type"},
      std::pair{429, "Too Many Requests"},
      std::pair{431, "Request Header Fields Too Large"},
      std::pair{500, "Internal Server Error"},
      std::pair{503, "Service Unavailable"},
      std::pair{505, "HTTP Version Not Supported"},
      std::pair{507, "Insufficient Storage"},
  };
  for (const auto& [known, reason] : kReasons) {
    if (known == status) {
      return reason;
    }
  }
  return "Other";
}

// The time for the header Date; made once a second.
const std::string& http_date() {
  thread_local std::time_t made_at = 0;
  thread_local std::string date;
  const std::time_t now = std::time(nullptr);
  if (now != made_at || date.empty()) {
    made_at = now;
    date = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
  }
  return date;
}

// The header traceparent if it is well formed: "00-", a trace, a parent and flags, in hexadecimal.
std::string traceparent_of(const RequestHead& head) {
  constexpr std::string_view kShape = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::string_view given = head.header("traceparent");
  bool well_formed = given.size() == kShape.size();
  for (std::size_t i = 0; well_formed && i < given.size(); ++i) {
    well_formed =
        kShape[i] == 'x' ? kDigits.find(given[i]) != std::string_view::npos : given[i] == kShape[i];
  }
  return std::string(well_formed ? given : std::string_view());
}

std::string head_of(const HttpResponse& response, bool close, bool is_http_1_0) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                                 reason_of(response.status), http_date());
  if (response.stream) {
    head += is_http_1_0 ? "" : "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204) {
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", response.body.size());
  }
  if (!response.body.empty() || response.stream) {
    fmt::format_to(std::back_inserter(head), "Content-Type: {}\r\n", response.content_type);
  }
  if (response.retry_after > 0) {
    fmt::format_to(std::back_inserter(head), "Retry-After: {}\r\n", response.retry_after);
  }
  if (!response.allow.empty()) {
    fmt::format_to(std::back_inserter(head), "Allow: {}\r\n", response.allow);
  }
  head += response.headers;
  if (response.status == 401) {
    head += "WWW-Authenticate: Bearer\r\n";
  }
  if (close) {
    head += "Connection: close\r\n";
  } else if (is_http_1_0) {
    head += "Connection: keep-alive\r\n";
  }
  return head + "\r\n";
}

}  // namespace

HttpConnection::HttpConnection(std::unique_ptr<Transport> transport, const ClientAddress& peer,
                               ConnectionLimits::Guest& guest, const ConnectionContext& context,
                               std::function<void()> resume, Time now)
    : transport_(std::move(transport)),
      peer_(peer),
      guest_(guest),
      context_(context),
      resume_(std::move(resume)),
      since_(now) {}

void HttpConnection::enter(Stage stage, Time now) {
  stage_ = stage;
  const bool served = stage == Stage::kWork || stage == Stage::kResponse;
  // The time for the first request includes the handshake.
  const bool same_wait = first_ && (stage == Stage::kIdle || stage == Stage::kHead);
  if (!same_wait) {
    since_ = now;
  }
  guest_.waiting_since = served ? std::nullopt : std::optional(since_);
}

double HttpConnection::seconds_allowed() const {
  const HttpOptions& options = context_.options;
  switch (stage_) {
    case Stage::kIdle:
      if (!first_) {
        return options.idle_seconds;
      }
      [[fallthrough]];
    case Stage::kHandshake:
    case Stage::kHead:
      return guest_.reserved ? std::min(kReservedSeconds, options.header_seconds)
                             : options.header_seconds;
    case Stage::kBody:
      return guest_.reserved ? std::min(kReservedSeconds, options.body_seconds)
                             : options.body_seconds + upload_seconds();
    case Stage::kGoodbye:
      return kGoodbyeSeconds;
    default:
      return options.idle_seconds;
  }
}

// The further time that a large body has won by what has come of it.
double HttpConnection::upload_seconds() const {
  const std::size_t bytes = exchange_ ? exchange_->parser.body_bytes() : 0;
  return bytes > context_.options.largest_body ? static_cast<double>(bytes) / kLeastUploadRate
                                               : 0.0;
}

bool HttpConnection::tick(Time now) {
  const bool more = stage_ == Stage::kStream && proceed(now);
  if (stage_ != Stage::kWork && stage_ != Stage::kEnded &&
      seconds_between(since_, now) > seconds_allowed()) {
    stage_ = Stage::kEnded;
  }
  return more && !ended();
}

void HttpConnection::end_if_unused() {
  if (stage_ != Stage::kWork && stage_ != Stage::kResponse) {
    stage_ = Stage::kEnded;
  }
}

bool HttpConnection::proceed(Time now) {
  try {
    for (int i = 0; i < kStepsAtOnce; ++i) {
      if (!step(now)) {
        return false;
      }
    }
  } catch (const std::exception& error) {
    log_error("a connection failed", {{"detail", error.what()}});
    stage_ = Stage::kEnded;
  }
  return !ended();
}

// Returns false if there is nothing to do before the socket is ready or the work is done.
bool HttpConnection::step(Time now) {
  switch (stage_) {
    case Stage::kHandshake:
      return step_handshake(now);
    case Stage::kIdle:
    case Stage::kHead:
    case Stage::kBody:
      return step_reading(now);
    case Stage::kResponse:
      return step_response(now);
    case Stage::kStream:
      return step_stream(now);
    case Stage::kGoodbye:
      return step_goodbye();
    case Stage::kWork:
    case Stage::kEnded:
      break;
  }
  return false;
}

bool HttpConnection::step_handshake(Time now) {
  const Transport::State state = transport_->shake_hands();
  if (state == Transport::State::kOpen) {
    enter(Stage::kIdle, now);
  } else if (state == Transport::State::kEnded) {
    context_.metrics.failed_handshakes.fetch_add(1, std::memory_order_relaxed);
    stage_ = Stage::kEnded;
  }
  return state == Transport::State::kOpen;
}

bool HttpConnection::step_reading(Time now) {
  if (!received_.empty() && parse(now)) {
    return true;
  }
  std::array<char, kReadBytes> bytes;
  const Transport::Moved moved = transport_->read(bytes);
  if (moved.state == Transport::State::kEnded) {
    stage_ = Stage::kEnded;
  }
  received_.append(bytes.data(), moved.bytes);
  return moved.state == Transport::State::kOpen;
}

// Returns true if the stage has changed. Otherwise all bytes were used.
bool HttpConnection::parse(Time now) {
  if (!exchange_) {
    exchange_ =
        std::make_unique<Exchange>(context_.options.largest_body, context_.options.largest_upload);
  }
  RequestParser& parser = exchange_->parser;
  const Stage before = stage_;
  const std::size_t used = parser.read(received_);
  received_.erase(0, used);
  if (before == Stage::kIdle && parser.has_begun()) {
    exchange_->begin = now;
    enter(Stage::kHead, now);
  }
  if (parser.state() == RequestParser::State::kRefused) {
    on_malformed(now);
    return true;
  }
  if (parser.state() != RequestParser::State::kHead && stage_ == Stage::kHead) {
    on_head(now);
  }
  if (exchange_ && exchange_->admitted &&
      exchange_->parser.state() == RequestParser::State::kComplete) {
    on_request(now);
  }
  return stage_ != before || !received_.empty();
}

HttpRequest HttpConnection::request_of(const RequestHead& head) const {
  HttpRequest request;
  request.method = head.method;
  request.path = head.target;
  request.key = key_of(head);
  const AddressList& trusted = context_.options.trusted_proxies;
  request.client = trusted.empty() ? peer_ : original_client(peer_, forwarded_for(head), trusted);
  request.from_trusted_proxy = trusted.contains(request.client);
  request.host = head.header("host");
  request.origin = head.header("origin");
  request.content_type = head.header("content-type");
  request.traceparent = traceparent_of(head);
  request.is_preflight = head.method == "OPTIONS" && !request.origin.empty() &&
                         !head.header("access-control-request-method").empty();
  request.forwarded_by = head.header("x-mcnb-node");
  request.assigned_id = head.header("x-mcnb-id");
  request.has_body = head.has_body();
  request.on_reserved_connection = guest_.reserved;
  return request;
}

void HttpConnection::on_head(Time now) {
  const RequestHead& head = exchange_->parser.head();
  exchange_->request = request_of(head);
  close_ = !head.keep_alive || guest_.reserved;
  enter(Stage::kBody, now);
  if (const std::optional<HttpResponse> refusal = context_.handler.admit(exchange_->request)) {
    // A body that stays unread ends the connection.
    close_ = close_ || head.has_body();
    respond(*refusal, now);
    return;
  }
  exchange_->admitted = true;
  if (head.expects_continue && head.has_body() && received_.empty()) {
    ask_for_body();
  }
}

// Nothing else is being sent now, so the few bytes fit the socket's buffer; if not, the connection
// is beyond help.
void HttpConnection::ask_for_body() {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  if (transport_->write(kContinue).bytes != kContinue.size()) {
    stage_ = Stage::kEnded;
  }
}

void HttpConnection::on_request(Time now) {
  exchange_->request.body = exchange_->parser.take_body();
  enter(Stage::kWork, now);
  exchange_->plan = context_.handler.plan(exchange_->request);
  if (!exchange_->plan.start || !exchange_->plan.start(resume_)) {
    respond(exchange_->plan.finish(), now);
  }
}

bool HttpConnection::finish_work(Time now) {
  if (stage_ != Stage::kWork) {
    return false;
  }
  try {
    respond(exchange_->plan.finish(), now);
  } catch (const std::exception& error) {
    log_error("a request failed", {{"detail", error.what()}});
    stage_ = Stage::kEnded;
  }
  return proceed(now);
}

void HttpConnection::on_malformed(Time now) {
  context_.metrics.malformed_requests.fetch_add(1, std::memory_order_relaxed);
  close_ = true;
  respond(error_response(exchange_->parser.refusal()), now);
}

void HttpConnection::respond(HttpResponse response, Time now) {
  const RequestHead& head = exchange_->parser.head();
  stream_ = head.method == "HEAD" ? BodyStream() : response.stream;
  chunked_ = !head.is_http_1_0;
  close_ = close_ || stream_ || context_.closing.load(std::memory_order_relaxed);
  if (const std::string& trace = exchange_->request.traceparent; !trace.empty()) {
    response.headers += "traceparent: " + trace + "\r\n";
  }
  response_ = head_of(response, close_, head.is_http_1_0);
  if (head.method != "HEAD") {
    response_ += stream_ ? "" : response.body;
  }
  sent_ = 0;
  const double seconds = seconds_between(exchange_->begin, std::chrono::steady_clock::now());
  context_.metrics.observe(exchange_->plan.metric, response.status, seconds);
  if (context_.handler.served) {
    context_.handler.served(exchange_->request, response, seconds);
  }
  exchange_.reset();
  enter(Stage::kResponse, now);
}

// Sends what is left of `response_`. Returns false if the socket takes no more, or is closed.
bool HttpConnection::write_some() {
  const Transport::Moved moved = transport_->write(std::string_view(response_).substr(sent_));
  if (moved.state == Transport::State::kEnded) {
    stage_ = Stage::kEnded;
  }
  sent_ += moved.bytes;
  if (moved.state == Transport::State::kAgain) {
    guest_.waiting_since = since_;  // for the client to read
  }
  return moved.state == Transport::State::kOpen;
}

bool HttpConnection::step_response(Time now) {
  const bool open = write_some();
  if (open && sent_ == response_.size()) {
    response_.clear();
    sent_ = 0;
    first_ = false;
    if (stream_) {
      enter(Stage::kStream, now);
      return true;
    }
    if (close_) {
      transport_->end_writing();
    }
    enter(close_ ? Stage::kGoodbye : Stage::kIdle, now);
  }
  return open;
}

// Sends the next piece, if there is one. A client has nothing to say meanwhile; what it sends is
// dropped. Returns false when there is nothing to do before the next tick.
bool HttpConnection::step_stream(Time now) {
  std::array<char, kReadBytes> bytes;
  if (transport_->read(bytes).state == Transport::State::kEnded) {
    stage_ = Stage::kEnded;
    return false;
  }
  if (sent_ == response_.size()) {
    response_.clear();
    sent_ = 0;
    std::optional<std::string> piece = stream_();
    if (!piece) {
      stream_ = {};
      response_ = chunked_ ? "0\r\n\r\n" : "";
      enter(Stage::kResponse, now);
      return true;
    }
    if (!piece->empty()) {
      response_ = chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece->size(), *piece) : *piece;
    }
    since_ = now;  // whoever reads is not late
  }
  return sent_ < response_.size() && write_some();
}

bool HttpConnection::step_goodbye() {
  std::array<char, kReadBytes> bytes;
  const Transport::Moved moved = transport_->read(bytes);
  if (moved.state == Transport::State::kEnded) {
    stage_ = Stage::kEnded;
  }
  return moved.state == Transport::State::kOpen;
}

}  // namespace mcnb
