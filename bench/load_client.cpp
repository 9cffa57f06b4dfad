#include "bench/load_client.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bench/limits.h"
#include "mcnb/base/error.h"

namespace mcnb::bench {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kSystem, "the load client: " + what);
}

class Connection {
 public:
  explicit Connection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      fail("cannot connect");
    }
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }
  double begun() const { return begun_; }
  bool counts() const { return counts_; }

  void send(const Exchange& exchange) {
    std::string_view rest = exchange.request;
    begun_ = now_seconds();
    counts_ = exchange.counts;
    while (!rest.empty()) {
      const ssize_t sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        fail("cannot send");
      }
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Returns true once a whole response has arrived; `body` then holds its body.
  bool receive(std::string& body) {
    char some[16384];
    const ssize_t got = ::recv(socket_, some, sizeof some, 0);
    if (got <= 0) {
      fail("the connection ended");
    }
    buffer_.append(some, static_cast<std::size_t>(got));
    const std::size_t head = buffer_.find("\r\n\r\n");
    if (head == std::string::npos) {
      return false;
    }
    const std::size_t length = buffer_.find("Content-Length: ");
    const std::size_t wanted =
        length < head ? static_cast<std::size_t>(std::atoll(buffer_.c_str() + length + 16)) : 0;
    if (buffer_.size() < head + 4 + wanted) {
      return false;
    }
    body = buffer_.substr(head + 4, wanted);
    if (buffer_[9] != '2') {
      fail(fmt::format("answered {}", buffer_));
    }
    buffer_.clear();
    return true;
  }

 private:
  int socket_;
  std::string buffer_;
  double begun_ = 0.0;
  bool counts_ = true;
};

}  // namespace

LoadResult put_load(std::uint16_t port, const Load& load) {
  const int poll = ::epoll_create1(0);
  std::vector<std::unique_ptr<Connection>> connections;
  for (std::size_t i = 0; i < load.connections; ++i) {
    connections.push_back(std::make_unique<Connection>(port));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, connections.back()->socket(), &event);
  }
  LoadResult result;
  std::vector<double> times;
  const double begin = now_seconds();
  const double used_before = processor_seconds();
  std::uint64_t sent = 0;
  std::size_t busy = 0;
  const auto go_on = [&](std::size_t i, const std::string& last) {
    const bool more =
        load.requests == 0 ? now_seconds() - begin < load.seconds : sent < load.requests;
    if (more) {
      connections[i]->send(load.next(i, last));
      ++sent;
      ++busy;
    }
  };
  for (std::size_t i = 0; i < connections.size(); ++i) {
    go_on(i, "");
  }
  std::vector<epoll_event> events(connections.size());
  std::string body;
  while (busy > 0) {
    const int count = ::epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int k = 0; k < count; ++k) {
      const auto i = static_cast<std::size_t>(events[static_cast<std::size_t>(k)].data.u64);
      if (!connections[i]->receive(body)) {
        continue;
      }
      --busy;
      if (connections[i]->counts()) {
        times.push_back(now_seconds() - connections[i]->begun());
      } else {
        ++result.others;
      }
      go_on(i, body);
    }
  }
  ::close(poll);
  result.seconds = now_seconds() - begin;
  result.processor_seconds = processor_seconds() - used_before;
  result.answers = times.size();
  if (!times.empty()) {
    std::ranges::sort(times);
    result.p50 = times[times.size() / 2];
    result.p99 = times[times.size() * 99 / 100];
    result.p999 = times[times.size() * 999 / 1000];
  }
  return result;
}

}  // namespace mcnb::bench
