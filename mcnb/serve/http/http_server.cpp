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
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/protocol.h"

namespace mcnb {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using namespace std::chrono_literals;

constexpr std::size_t kPoolBytes = 32 * 1024;  // of one connection: headers must fit

SteadyTime now() { return std::chrono::steady_clock::now(); }

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot open", path));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// Where to listen.
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

}  // namespace

class HttpServer::Daemon {
 public:
  Daemon(const HttpOptions& options, Handler handler, Metrics& metrics);
  ~Daemon();

  std::uint16_t port() const { return port_; }
  void close_door() {
    const MHD_socket socket = ::MHD_quiesce_daemon(daemon_);
    if (socket != MHD_INVALID_SOCKET) {
      ::shutdown(socket, SHUT_RDWR);  // nobody gets in; the daemon's thread may still look at it
      door_ = socket;
    }
  }

 private:
  enum class Phase : std::uint8_t { kIdle, kHeaders, kBody, kAnswering };
  // A connection, and since when it is in its phase.
  struct Watched {
    int socket = -1;
    Phase phase = Phase::kIdle;
    SteadyTime since;
  };
  // One request on its way.
  struct Exchange {
    HttpRequest request;
    HttpPlan plan;
    bool has_head = false;
    bool started = false;
    bool refused = false;
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
  MHD_Result send(MHD_Connection* connection, Exchange& exchange, const HttpAnswer& answer);
  void enter(MHD_Connection* connection, Phase phase);
  void watch();
  double seconds_allowed(Phase phase) const;

  HttpOptions options_;
  Handler handler_;
  Metrics& metrics_;
  std::string certificate_;
  std::string private_key_;
  MHD_Daemon* daemon_ = nullptr;
  MHD_socket door_ = MHD_INVALID_SOCKET;  // that it listened at, once closed
  std::uint16_t port_ = 0;

  std::mutex watch_mutex_;
  std::condition_variable watch_wake_;
  std::list<Watched> watched_;
  bool stopping_ = false;
  std::thread watcher_;
};

HttpServer::Daemon::Daemon(const HttpOptions& options, Handler handler, Metrics& metrics)
    : options_(options), handler_(std::move(handler)), metrics_(metrics) {
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
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<std::intptr_t>(kPoolBytes), nullptr},
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
  watcher_ = std::thread([this] { watch(); });
  daemon_ = ::MHD_start_daemon(
      flags, options.port, nullptr, nullptr, &on_request, this, MHD_OPTION_SOCK_ADDR,
      reinterpret_cast<const sockaddr*>(&address.bytes), MHD_OPTION_URI_LOG_CALLBACK,
      &on_first_line, this, MHD_OPTION_NOTIFY_COMPLETED, &on_completed, this,
      MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this, MHD_OPTION_ARRAY, items.data(),
      MHD_OPTION_END);
  if (daemon_ == nullptr) {
    const std::string reason = std::strerror(errno);
    {
      const std::lock_guard lock(watch_mutex_);
      stopping_ = true;
    }
    watch_wake_.notify_all();
    watcher_.join();
    throw Error(ErrorKind::kSystem,
                fmt::format("cannot listen on {} port {}: {}", options.host, options.port, reason));
  }
  const MHD_DaemonInfo* info = ::MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  port_ = info == nullptr ? options.port : info->port;
}

HttpServer::Daemon::~Daemon() {
  ::MHD_stop_daemon(daemon_);
  if (door_ != MHD_INVALID_SOCKET) {
    ::close(door_);
  }
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  watch_wake_.notify_all();
  watcher_.join();
}

double HttpServer::Daemon::seconds_allowed(Phase phase) const {
  switch (phase) {
    case Phase::kIdle:
      return options_.idle_seconds;
    case Phase::kHeaders:
      return options_.header_seconds;
    case Phase::kBody:
      return options_.body_seconds;
    case Phase::kAnswering:
      return options_.idle_seconds;
  }
  return 0.0;
}

// Ends connections that take too long: whoever sends a byte now and then as well.
void HttpServer::Daemon::watch() {
  std::unique_lock lock(watch_mutex_);
  while (!watch_wake_.wait_for(lock, 100ms, [this] { return stopping_; })) {
    for (Watched& one : watched_) {
      const double taken = std::chrono::duration<double>(now() - one.since).count();
      if (one.socket >= 0 && taken > seconds_allowed(one.phase)) {
        ::shutdown(one.socket, SHUT_RDWR);
        one.socket = -1;
      }
    }
  }
}

void HttpServer::Daemon::enter(MHD_Connection* connection, Phase phase) {
  const MHD_ConnectionInfo* info =
      ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  if (info != nullptr && info->socket_context != nullptr) {
    auto* watched = static_cast<std::list<Watched>::iterator*>(info->socket_context);
    const std::lock_guard lock(watch_mutex_);
    (*watched)->phase = phase;
    (*watched)->since = now();
  }
}

void HttpServer::Daemon::on_connection(void* self, MHD_Connection* connection, void** state,
                                       MHD_ConnectionNotificationCode code) {
  auto& daemon = *static_cast<Daemon*>(self);
  const std::lock_guard lock(daemon.watch_mutex_);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const MHD_ConnectionInfo* info =
        ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    daemon.watched_.push_front({info == nullptr ? -1 : info->connect_fd, Phase::kIdle, now()});
    *state = new std::list<Watched>::iterator(daemon.watched_.begin());
    daemon.metrics_.connections.fetch_add(1);
  } else {
    auto* watched = static_cast<std::list<Watched>::iterator*>(*state);
    daemon.watched_.erase(*watched);
    delete watched;
    *state = nullptr;
    daemon.metrics_.connections.fetch_sub(1);
  }
}

void* HttpServer::Daemon::on_first_line(void* self, const char* uri, MHD_Connection* connection) {
  auto& daemon = *static_cast<Daemon*>(self);
  daemon.enter(connection, Phase::kHeaders);
  auto* exchange = new Exchange;
  exchange->request.path = uri;
  return exchange;
}

void HttpServer::Daemon::on_completed(void* self, MHD_Connection* connection, void** state,
                                      MHD_RequestTerminationCode) {
  auto& daemon = *static_cast<Daemon*>(self);
  delete static_cast<Exchange*>(*state);
  *state = nullptr;
  daemon.enter(connection, Phase::kIdle);
}

MHD_Result HttpServer::Daemon::on_request(void* self, MHD_Connection* connection, const char*,
                                          const char* method, const char*, const char* upload,
                                          std::size_t* upload_size, void** state) {
  auto& daemon = *static_cast<Daemon*>(self);
  auto& exchange = *static_cast<Exchange*>(*state);
  try {
    return daemon.proceed(connection, exchange, method, upload, upload_size);
  } catch (const std::exception& error) {
    log_error("a request failed", {{"detail", error.what()}});
    return MHD_NO;
  }
}

MHD_Result HttpServer::Daemon::read_head(MHD_Connection* connection, Exchange& exchange,
                                         const char* method) {
  exchange.has_head = true;
  exchange.request.method = method;
  enter(connection, Phase::kBody);
  const auto header = [&](const char* name) {
    const char* value = ::MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return std::string_view(value == nullptr ? "" : value);
  };
  constexpr std::string_view kBearer = "Bearer ";
  for (const std::string_view key : {header("X-API-Key"), header("Ocp-Apim-Subscription-Key")}) {
    if (!key.empty()) {
      exchange.request.key = key;
    }
  }
  if (const std::string_view bearer = header("Authorization");
      exchange.request.key.empty() && bearer.starts_with(kBearer)) {
    exchange.request.key = bearer.substr(kBearer.size());
  }
  const std::string_view length = header("Content-Length");
  std::uint64_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (bytes > options_.largest_body) {
    return send(
        connection, exchange,
        {413,
         write_error({413, "too_large",
                      fmt::format("expected a body of at most {} bytes", options_.largest_body), "",
                      0})});
  }
  if (const std::optional<HttpAnswer> refusal = handler_.admit(exchange.request)) {
    if (bytes > 0 || !header("Transfer-Encoding").empty()) {
      return send(connection, exchange, *refusal);  // and the connection ends, unread
    }
    exchange.plan.finish = [answer = *refusal] { return answer; };
    exchange.refused = true;
  }
  exchange.request.body.reserve(static_cast<std::size_t>(bytes));
  return MHD_YES;
}

MHD_Result HttpServer::Daemon::proceed(MHD_Connection* connection, Exchange& exchange,
                                       const char* method, const char* upload,
                                       std::size_t* upload_size) {
  if (!exchange.has_head) {
    return read_head(connection, exchange, method);
  }
  if (*upload_size > 0) {
    // Of a body without a length: what is too much is thrown away until it ends or time is up.
    if (exchange.request.body.size() + *upload_size > options_.largest_body) {
      exchange.too_large = true;
      exchange.request.body.clear();
    } else if (!exchange.too_large) {
      exchange.request.body.append(upload, *upload_size);
    }
    *upload_size = 0;
    return MHD_YES;
  }
  if (exchange.too_large) {
    return send(
        connection, exchange,
        {413,
         write_error({413, "too_large",
                      fmt::format("expected a body of at most {} bytes", options_.largest_body), "",
                      0})});
  }
  if (!exchange.started && !exchange.refused) {
    exchange.started = true;
    enter(connection, Phase::kAnswering);
    exchange.plan = handler_.plan(exchange.request);
    if (exchange.plan.start) {
      // Suspended before it starts: the end may come before this returns.
      ::MHD_suspend_connection(connection);
      Exchange* own = &exchange;
      const bool begun = exchange.plan.start([own, connection] {
        own->done = true;
        ::MHD_resume_connection(connection);
      });
      if (!begun) {
        exchange.done = true;
        ::MHD_resume_connection(connection);
      }
      return MHD_YES;
    }
  } else if (exchange.plan.start && !exchange.done) {
    return MHD_YES;
  }
  return send(connection, exchange, exchange.plan.finish());
}

MHD_Result HttpServer::Daemon::send(MHD_Connection* connection, Exchange& exchange,
                                    const HttpAnswer& answer) {
  MHD_Response* response = ::MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (!answer.body.empty()) {
    ::MHD_add_response_header(response, "Content-Type", answer.content_type);
  }
  if (answer.retry_after > 0) {
    ::MHD_add_response_header(response, "Retry-After", std::to_string(answer.retry_after).c_str());
  }
  if (!answer.allow.empty()) {
    ::MHD_add_response_header(response, "Allow", answer.allow.c_str());
  }
  if (answer.status == 401) {
    ::MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  }
  const MHD_Result result =
      ::MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  ::MHD_destroy_response(response);
  metrics_.observe_request(exchange.plan.route, answer.status,
                           std::chrono::duration<double>(now() - exchange.begin).count());
  return result;
}

HttpServer::HttpServer(const HttpOptions& options, Handler handler, Metrics& metrics)
    : daemon_(std::make_unique<Daemon>(options, std::move(handler), metrics)) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return daemon_->port(); }

void HttpServer::close_door() { daemon_->close_door(); }

}  // namespace mcnb
