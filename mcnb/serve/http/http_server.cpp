#include "mcnb/serve/http/http_server.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/connection_watch.h"

namespace mcnb {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using Phase = ConnectionWatch::Phase;

constexpr std::size_t kHeaderBytes = 32 * 1024;  // memory of a connection, which headers must fit

SteadyTime now() { return std::chrono::steady_clock::now(); }

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot open", path));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// An address to listen on.
struct Address {
  sockaddr_storage bytes{};
  bool is_ipv6 = false;
};

Address resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    throw Error(ErrorKind::kSystem, fmt::format("host {}: {}", host, ::gai_strerror(code)));
  }
  Address address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.is_ipv6 = found->ai_family == AF_INET6;
  ::freeaddrinfo(found);
  return address;
}

// Empty if the request has no such header. Valid while the request is served.
std::string_view header_of(MHD_Connection* connection, const char* name) {
  const char* value = ::MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

// The API key of a request: the header of the retired service wins over ours, a bearer token comes
// last.
std::string_view key_of(MHD_Connection* connection) {
  constexpr std::string_view kBearer = "Bearer ";
  for (const char* name : {"Ocp-Apim-Subscription-Key", "X-API-Key"}) {
    if (const std::string_view key = header_of(connection, name); !key.empty()) {
      return key;
    }
  }
  const std::string_view bearer = header_of(connection, "Authorization");
  return bearer.starts_with(kBearer) ? bearer.substr(kBearer.size()) : "";
}

// The client's address, without its port; empty if it cannot be told.
std::string address_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) {
    return "";
  }
  const sockaddr* const address = info->client_addr;
  const socklen_t length =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  char text[NI_MAXHOST];
  return ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text
                                                                                            : "";
}

std::uint64_t content_length(MHD_Connection* connection) {
  const std::string_view length = header_of(connection, "Content-Length");
  std::uint64_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  return bytes;
}

void add_header(MHD_Response* response, const char* name, const std::string& value) {
  ::MHD_add_response_header(response, name, value.c_str());
}

}  // namespace

// The callbacks of libmicrohttpd, which all run on its one thread.
class HttpServer::Daemon {
 public:
  Daemon(const HttpOptions& options, Handler handler, RequestMetrics& metrics);
  ~Daemon();

  std::uint16_t port() const { return port_; }
  void stop_listening();

 private:
  // One request, from its first line to the end of its response.
  struct Exchange {
    HttpRequest request;
    HttpPlan plan;
    bool has_head = false;
    bool started = false;
    bool refused = false;  // by `admit`
    bool too_large = false;
    std::atomic<bool> done{false};
    SteadyTime begin = now();
  };

  static void* on_first_line(void* self, const char* uri, MHD_Connection* connection);
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload,
                               std::size_t* upload_size, void** state);
  static void on_completed(void* self, MHD_Connection* connection, void** state,
                           MHD_RequestTerminationCode);
  static void on_connection(void* self, MHD_Connection* connection, void** state,
                            MHD_ConnectionNotificationCode code);

  MHD_Result proceed(MHD_Connection* connection, Exchange& exchange, const char* method,
                     const char* upload, std::size_t* upload_size);
  MHD_Result read_head(MHD_Connection* connection, Exchange& exchange, const char* method);
  void read_body(Exchange& exchange, const char* upload, std::size_t size) const;
  void start(MHD_Connection* connection, Exchange& exchange) const;
  MHD_Result send(MHD_Connection* connection, const Exchange& exchange,
                  const HttpResponse& response) const;
  HttpResponse too_large() const;
  void enter(MHD_Connection* connection, Phase phase);

  HttpOptions options_;
  Handler handler_;
  RequestMetrics& metrics_;
  ConnectionWatch watch_;
  std::string certificate_;
  std::string private_key_;
  MHD_Daemon* daemon_ = nullptr;
  MHD_socket closed_socket_ = MHD_INVALID_SOCKET;  // the listening socket after stop_listening
  std::uint16_t port_ = 0;
};

HttpServer::Daemon::Daemon(const HttpOptions& options, Handler handler, RequestMetrics& metrics)
    : options_(options),
      handler_(std::move(handler)),
      metrics_(metrics),
      watch_({options.idle_seconds, options.header_seconds, options.body_seconds}) {
  if (options.certificate.empty() != options.private_key.empty()) {
    throw Error(ErrorKind::kUsage, "TLS needs both a certificate and a private key");
  }
  const Address address = resolve(options.host, options.port);
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO;
  if (address.is_ipv6) {
    flags |= MHD_USE_IPv6;
  }
  std::vector<MHD_OptionItem> items{
      {MHD_OPTION_CONNECTION_LIMIT, static_cast<std::intptr_t>(options.most_connections), nullptr},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<std::intptr_t>(kHeaderBytes), nullptr},
      {MHD_OPTION_CONNECTION_TIMEOUT, static_cast<std::intptr_t>(options.idle_seconds) + 1,
       nullptr},
  };
  if (!options.certificate.empty()) {
    flags |= MHD_USE_TLS;
    certificate_ = read_whole(options.certificate);
    private_key_ = read_whole(options.private_key);
    items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate_.data()});
    items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, private_key_.data()});
  }
  items.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ = ::MHD_start_daemon(
      flags, options.port, nullptr, nullptr, &on_request, this, MHD_OPTION_SOCK_ADDR,
      reinterpret_cast<const sockaddr*>(&address.bytes), MHD_OPTION_URI_LOG_CALLBACK,
      &on_first_line, this, MHD_OPTION_NOTIFY_COMPLETED, &on_completed, this,
      MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this, MHD_OPTION_ARRAY, items.data(),
      MHD_OPTION_END);
  if (daemon_ == nullptr) {
    throw Error(ErrorKind::kSystem, fmt::format("cannot listen on {} port {}: {}", options.host,
                                                options.port, std::strerror(errno)));
  }
  const MHD_DaemonInfo* info = ::MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  port_ = info == nullptr ? options.port : info->port;
}

HttpServer::Daemon::~Daemon() {
  ::MHD_stop_daemon(daemon_);
  if (closed_socket_ != MHD_INVALID_SOCKET) {
    ::close(closed_socket_);
  }
}

void HttpServer::Daemon::stop_listening() {
  const MHD_socket socket = ::MHD_quiesce_daemon(daemon_);
  if (socket != MHD_INVALID_SOCKET) {
    // Nobody can connect any more. The socket is closed later: the daemon's thread may still use
    // it.
    ::shutdown(socket, SHUT_RDWR);
    closed_socket_ = socket;
  }
}

void HttpServer::Daemon::enter(MHD_Connection* connection, Phase phase) {
  const MHD_ConnectionInfo* info =
      ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  if (info != nullptr && info->socket_context != nullptr) {
    watch_.enter(static_cast<ConnectionWatch::Connection*>(info->socket_context), phase);
  }
}

void HttpServer::Daemon::on_connection(void* self, MHD_Connection* connection, void** state,
                                       MHD_ConnectionNotificationCode code) {
  auto& daemon = *static_cast<Daemon*>(self);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const MHD_ConnectionInfo* info =
        ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *state = daemon.watch_.add(info == nullptr ? -1 : info->connect_fd);
    daemon.metrics_.connections.fetch_add(1);
  } else {
    daemon.watch_.remove(static_cast<ConnectionWatch::Connection*>(*state));
    *state = nullptr;
    daemon.metrics_.connections.fetch_sub(1);
  }
}

void* HttpServer::Daemon::on_first_line(void* self, const char* uri, MHD_Connection* connection) {
  static_cast<Daemon*>(self)->enter(connection, Phase::kHeaders);
  auto* exchange = new Exchange;  // deleted by on_completed
  exchange->request.path = uri;
  return exchange;
}

void HttpServer::Daemon::on_completed(void* self, MHD_Connection* connection, void** state,
                                      MHD_RequestTerminationCode) {
  delete static_cast<Exchange*>(*state);
  *state = nullptr;
  static_cast<Daemon*>(self)->enter(connection, Phase::kIdle);
}

MHD_Result HttpServer::Daemon::on_request(void* self, MHD_Connection* connection, const char*,
                                          const char* method, const char*, const char* upload,
                                          std::size_t* upload_size, void** state) {
  auto& exchange = *static_cast<Exchange*>(*state);
  try {
    return static_cast<Daemon*>(self)->proceed(connection, exchange, method, upload, upload_size);
  } catch (const std::exception& error) {
    log_error("a request failed", {{"detail", error.what()}});
    return MHD_NO;
  }
}

// libmicrohttpd calls this after the headers, with each part of the body, after the body, and again
// when a suspended connection is resumed.
MHD_Result HttpServer::Daemon::proceed(MHD_Connection* connection, Exchange& exchange,
                                       const char* method, const char* upload,
                                       std::size_t* upload_size) {
  if (!exchange.has_head) {
    return read_head(connection, exchange, method);
  }
  if (*upload_size > 0) {
    read_body(exchange, upload, *upload_size);
    *upload_size = 0;
    return MHD_YES;
  }
  if (exchange.too_large) {
    return send(connection, exchange, too_large());
  }
  if (!exchange.started && !exchange.refused) {
    exchange.started = true;
    enter(connection, Phase::kResponse);
    exchange.plan = handler_.plan(exchange.request);
    if (exchange.plan.start) {
      start(connection, exchange);
      return MHD_YES;
    }
  } else if (exchange.plan.start && !exchange.done) {
    return MHD_YES;
  }
  return send(connection, exchange, exchange.plan.finish());
}

MHD_Result HttpServer::Daemon::read_head(MHD_Connection* connection, Exchange& exchange,
                                         const char* method) {
  exchange.has_head = true;
  exchange.request.method = method;
  exchange.request.key = key_of(connection);
  exchange.request.address = address_of(connection);
  enter(connection, Phase::kBody);
  const std::uint64_t bytes = content_length(connection);
  if (bytes > options_.largest_body) {
    return send(connection, exchange, too_large());
  }
  if (const std::optional<HttpResponse> refusal = handler_.admit(exchange.request)) {
    if (bytes > 0 || !header_of(connection, "Transfer-Encoding").empty()) {
      return send(connection, exchange, *refusal);  // the body stays unread: the connection ends
    }
    exchange.plan.finish = [response = *refusal] { return response; };
    exchange.refused = true;
  }
  exchange.request.body.reserve(static_cast<std::size_t>(bytes));
  return MHD_YES;
}

// A body without Content-Length can turn out to be too large only here. The rest of it is
// discarded.
void HttpServer::Daemon::read_body(Exchange& exchange, const char* upload, std::size_t size) const {
  if (exchange.request.body.size() + size > options_.largest_body) {
    exchange.too_large = true;
    exchange.request.body.clear();
  } else if (!exchange.too_large) {
    exchange.request.body.append(upload, size);
  }
}

void HttpServer::Daemon::start(MHD_Connection* connection, Exchange& exchange) const {
  // `done` may be called before `start` returns, so the connection is suspended first.
  ::MHD_suspend_connection(connection);
  const auto resume = [&exchange, connection] {
    exchange.done = true;
    ::MHD_resume_connection(connection);
  };
  if (!exchange.plan.start(resume)) {
    resume();
  }
}

HttpResponse HttpServer::Daemon::too_large() const {
  return error_response({ErrorCode::kTooLarge, fmt::format("expected a body of at most {} bytes",
                                                           options_.largest_body)});
}

MHD_Result HttpServer::Daemon::send(MHD_Connection* connection, const Exchange& exchange,
                                    const HttpResponse& response) const {
  MHD_Response* const sent = ::MHD_create_response_from_buffer(
      response.body.size(), const_cast<char*>(response.body.data()), MHD_RESPMEM_MUST_COPY);
  if (!response.body.empty()) {
    add_header(sent, "Content-Type", response.content_type);
  }
  if (response.retry_after > 0) {
    add_header(sent, "Retry-After", std::to_string(response.retry_after));
  }
  if (!response.allow.empty()) {
    add_header(sent, "Allow", response.allow);
  }
  if (response.status == 401) {
    add_header(sent, "WWW-Authenticate", "Bearer");
  }
  const MHD_Result result =
      ::MHD_queue_response(connection, static_cast<unsigned>(response.status), sent);
  ::MHD_destroy_response(sent);
  metrics_.observe(exchange.plan.metric, response.status,
                   std::chrono::duration<double>(now() - exchange.begin).count());
  return result;
}

HttpServer::HttpServer(const HttpOptions& options, Handler handler, RequestMetrics& metrics)
    : daemon_(std::make_unique<Daemon>(options, std::move(handler), metrics)) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return daemon_->port(); }

void HttpServer::stop_listening() { daemon_->stop_listening(); }

}  // namespace mcnb
