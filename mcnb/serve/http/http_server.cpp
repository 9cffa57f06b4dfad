#include "mcnb/serve/http/http_server.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/http_connection.h"
#include "mcnb/serve/http/turns.h"

namespace mcnb {
namespace {

using Id = ConnectionLimits::Id;
using Time = ConnectionLimits::Time;

constexpr Id kListener = 0;  // what epoll calls the things that are no connections
constexpr Id kWake = 1;
constexpr Id kFirstConnection = 2;
constexpr std::chrono::milliseconds kTick(100);  // between two looks at the time limits
constexpr std::chrono::seconds kFarewell(2);     // for sending the last responses
constexpr int kAcceptedAtOnce = 32;
constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kTurns(5);  // between two looks at what has come meanwhile

Time now() { return std::chrono::steady_clock::now(); }

// A file descriptor that is closed in the end.
class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int get() const { return number_; }
  void close() {
    if (number_ >= 0) {
      ::close(std::exchange(number_, -1));
    }
  }

 private:
  int number_;
};

[[noreturn]] void fail(const HttpOptions& options) {
  throw Error(ErrorKind::kSystem, fmt::format("cannot listen on {} port {}: {}", options.host,
                                              options.port, std::strerror(errno)));
}

// A socket that listens on the first address of the host.
int listening_socket(const HttpOptions& options) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (code != 0) {
    throw Error(ErrorKind::kSystem, fmt::format("host {}: {}", options.host, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(found, &::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    fail(options);
  }
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (found->ai_family == AF_INET6) {
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  }
  if (::bind(socket, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket, kBacklog) != 0) {
    const int problem = errno;
    ::close(socket);
    errno = problem;
    fail(options);
  }
  return socket;
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Wakes the thread that waits by epoll; carries the connections whose responses can be made. Safe
// from many threads.
class WakeUp {
 public:
  int file() const { return event_.get(); }

  void resume(Id id) {
    const std::lock_guard lock(mutex_);
    resumed_.push_back(id);
    if (resumed_.size() == 1) {
      wake();
    }
  }
  void wake() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(event_.get(), &one, sizeof one));
  }
  std::vector<Id> take() {
    std::uint64_t count = 0;
    static_cast<void>(::read(event_.get(), &count, sizeof count));
    const std::lock_guard lock(mutex_);
    return std::exchange(resumed_, {});
  }

 private:
  File event_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::mutex mutex_;
  std::vector<Id> resumed_;
};

}  // namespace

class HttpServer::Loop {
 public:
  Loop(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity, Handler handler,
       RequestMetrics& metrics);
  ~Loop();

  std::uint16_t port() const { return port_; }
  void stop_listening();
  void use_identity(std::shared_ptr<const TlsIdentity> identity);

 private:
  void run();
  void watch(int file, Id id, std::uint32_t events) const;
  void on_events(std::span<const epoll_event> events);
  void enqueue(Id id, bool answered);
  void proceed(Id id);
  void finish(Id id);
  void take_turns();
  void accept_some();
  void welcome(int socket, const ClientAddress& client, const TlsIdentity* identity);
  void turn_away(int socket, bool tls) const;
  std::shared_ptr<const TlsIdentity> identity();
  void end_late_ones();
  void drop(Id id);
  void drop_if_ended(Id id);
  bool close_listener_if_asked();
  bool say_farewell();

  HttpOptions options_;
  Handler handler_;
  RequestMetrics& metrics_;
  std::atomic<bool> stop_listening_{false};
  ConnectionContext context_{options_, handler_, metrics_, stop_listening_};
  ConnectionLimits limits_;
  File listener_;
  File epoll_;
  std::shared_ptr<WakeUp> wake_up_ = std::make_shared<WakeUp>();
  std::uint16_t port_ = 0;
  std::unordered_map<Id, std::unique_ptr<HttpConnection>> connections_;
  Turns turns_;               // of connections that have something to do
  bool accept_more_ = false;  // there may be connections to accept
  Id next_id_ = kFirstConnection;
  Time last_tick_ = now();
  Time farewell_ends_;

  std::mutex identity_mutex_;
  std::shared_ptr<const TlsIdentity> identity_;
  std::atomic<bool> stopping_{false};
  std::promise<void> listener_closed_;
  std::thread thread_;
};

HttpServer::Loop::Loop(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity,
                       Handler handler, RequestMetrics& metrics)
    : options_(options),
      handler_(std::move(handler)),
      metrics_(metrics),
      limits_(options.connections),
      listener_(listening_socket(options)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      port_(port_of(listener_.get())),
      identity_(std::move(identity)) {
  if (epoll_.get() < 0 || wake_up_->file() < 0) {
    fail(options);
  }
  watch(listener_.get(), kListener, EPOLLIN | EPOLLET);
  watch(wake_up_->file(), kWake, EPOLLIN | EPOLLET);
  thread_ = std::thread([this] { run(); });
}

HttpServer::Loop::~Loop() {
  stopping_ = true;
  wake_up_->wake();
  thread_.join();
}

void HttpServer::Loop::watch(int file, Id id, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, file, &event);
}

void HttpServer::Loop::stop_listening() {
  if (!stop_listening_.exchange(true)) {
    wake_up_->wake();
    listener_closed_.get_future().wait();
  }
}

void HttpServer::Loop::use_identity(std::shared_ptr<const TlsIdentity> identity) {
  const std::lock_guard lock(identity_mutex_);
  identity_ = std::move(identity);
}

std::shared_ptr<const TlsIdentity> HttpServer::Loop::identity() {
  const std::lock_guard lock(identity_mutex_);
  return identity_;
}

void HttpServer::Loop::run() {
  std::array<epoll_event, 256> events;
  while (!say_farewell()) {
    const bool busy = !turns_.empty() || accept_more_;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   busy ? 0 : static_cast<int>(kTick.count()));
    on_events(std::span(events).first(static_cast<std::size_t>(std::max(count, 0))));
    take_turns();
    if (!close_listener_if_asked() && accept_more_) {
      accept_some();
    }
    if (now() - last_tick_ >= kTick) {
      last_tick_ = now();
      if (handler_.tick) {
        handler_.tick();
      }
      end_late_ones();
      accept_more_ = listener_.get() >= 0;  // in case there was no file descriptor left before
    }
  }
}

void HttpServer::Loop::on_events(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 == kListener) {
      accept_more_ = true;
    } else if (event.data.u64 == kWake) {
      for (const Id id : wake_up_->take()) {
        enqueue(id, true);
      }
    } else {
      enqueue(event.data.u64, false);
    }
  }
}

// `answered`: the response that the connection waits for can be made.
void HttpServer::Loop::enqueue(Id id, bool answered) {
  if (const auto found = connections_.find(id); found != connections_.end()) {
    turns_.add(found->second->client(), {id, answered});
  }
}

void HttpServer::Loop::proceed(Id id) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && found->second->proceed(now())) {
    enqueue(id, false);
  }
  drop_if_ended(id);
}

void HttpServer::Loop::finish(Id id) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && found->second->finish_work(now())) {
    enqueue(id, false);
  }
  drop_if_ended(id);
}

// Reading a request can take milliseconds, and so can writing a response: clients take turns, so
// that one with many connections holds up the others for one request only.
void HttpServer::Loop::take_turns() {
  const Time end = now() + kTurns;
  while (const std::optional<Turns::Turn> turn = turns_.next()) {
    turn->answered ? finish(turn->id) : proceed(turn->id);
    if (now() > end) {
      return;
    }
  }
}

void HttpServer::Loop::accept_some() {
  const std::shared_ptr<const TlsIdentity> identity = this->identity();
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int socket = ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      welcome(socket, ClientAddress::of(address), identity.get());
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) {
      continue;
    }
    accept_more_ = false;  // until the next event, or the next tick
    if (errno == EMFILE || errno == ENFILE) {
      if (const std::optional<Id> id = limits_.give_up_one(now())) {
        metrics_.replaced_connections.fetch_add(1, std::memory_order_relaxed);
        drop(*id);
        accept_more_ = true;
      }
    }
    return;
  }
}

void HttpServer::Loop::welcome(int socket, const ClientAddress& client,
                               const TlsIdentity* identity) {
  const Id id = next_id_++;
  const bool trusted = options_.trusted_proxies.contains(client);
  const ConnectionLimits::Entry entry = limits_.enter(id, client, trusted, now());
  if (entry.to_replace) {
    metrics_.replaced_connections.fetch_add(1, std::memory_order_relaxed);
    drop(*entry.to_replace);
  }
  if (entry.guest == nullptr) {
    metrics_.refused_connections.fetch_add(1, std::memory_order_relaxed);
    turn_away(socket, identity != nullptr);
    return;
  }
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  std::unique_ptr<Transport> transport =
      identity == nullptr ? plain_transport(socket) : identity->transport(socket);
  connections_.emplace(id, std::make_unique<HttpConnection>(
                               std::move(transport), client, *entry.guest, context_,
                               [wake_up = wake_up_, id] { wake_up->resume(id); }, now()));
  metrics_.connections.fetch_add(1);
  watch(socket, id, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

void HttpServer::Loop::turn_away(int socket, bool tls) const {
  constexpr std::string_view kRefusal =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
      "Connection: close\r\n\r\n";
  if (!tls) {
    static_cast<void>(::send(socket, kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL));
    ::shutdown(socket, SHUT_WR);
  }
  ::close(socket);
}

void HttpServer::Loop::drop(Id id) {
  limits_.leave(id);
  if (connections_.erase(id) > 0) {
    metrics_.connections.fetch_sub(1);
  }
}

void HttpServer::Loop::drop_if_ended(Id id) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && found->second->ended()) {
    drop(id);
  }
}

void HttpServer::Loop::end_late_ones() {
  std::vector<Id> ended;
  for (const auto& [id, connection] : connections_) {
    if (connection->tick(now())) {
      enqueue(id, false);
    }
    if (connection->ended()) {
      ended.push_back(id);
    }
  }
  for (const Id id : ended) {
    drop(id);
  }
}

bool HttpServer::Loop::close_listener_if_asked() {
  if (stop_listening_ && listener_.get() >= 0) {
    listener_.close();
    accept_more_ = false;
    listener_closed_.set_value();
  }
  return listener_.get() < 0;
}

// Once the server stops: ends the connections that nobody waits for. Returns true when none is
// left, or too slow clients have had their time.
bool HttpServer::Loop::say_farewell() {
  if (!stopping_) {
    return false;
  }
  if (farewell_ends_ == Time()) {
    farewell_ends_ = now() + kFarewell;
    for (const Id id : wake_up_->take()) {
      finish(id);
    }
  }
  std::vector<Id> all;
  for (const auto& [id, connection] : connections_) {
    connection->end_if_unused();
    all.push_back(id);
  }
  for (const Id id : all) {
    drop_if_ended(id);
  }
  return connections_.empty() || now() > farewell_ends_;
}

HttpServer::HttpServer(const HttpOptions& options, std::shared_ptr<const TlsIdentity> identity,
                       Handler handler, RequestMetrics& metrics)
    : loop_(std::make_unique<Loop>(options, std::move(identity), std::move(handler), metrics)) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return loop_->port(); }

void HttpServer::stop_listening() { loop_->stop_listening(); }

void HttpServer::use_identity(std::shared_ptr<const TlsIdentity> identity) {
  loop_->use_identity(std::move(identity));
}

}  // namespace mcnb
