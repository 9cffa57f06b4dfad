#include "mcnb/serve/http/node_link.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

int connecting_socket(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (code != 0) {
    throw Error(ErrorKind::kSystem, fmt::format("node {}: {}", address, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(found, &::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (socket < 0 ||
      (::connect(socket, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    ::close(socket);
    throw Error(ErrorKind::kSystem, fmt::format("node {}: cannot connect", address));
  }
  return socket;
}

}  // namespace

NodeLink::NodeLink(std::shared_ptr<const Node> node)
    : node_(std::move(node)), socket_(connecting_socket(node_->address)) {}

NodeLink::~NodeLink() { ::close(socket_); }

void NodeLink::send(std::string bytes) {
  out_ = std::move(bytes);
  sent_ = 0;
  awaited_ = true;
  response_ = {};
}

NodeLink::State NodeLink::proceed() {
  if (!write_some()) {
    reusable_ = false;
    return State::kLost;
  }
  const State state = read_some();
  reusable_ = reusable_ && state != State::kLost;
  return state;
}

// Returns false if the connection is lost.
bool NodeLink::write_some() {
  while (sent_ < out_.size()) {
    const ssize_t sent =
        ::send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      // ENOTCONN: it is still connecting.
      return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  return true;
}

NodeLink::State NodeLink::read_some() {
  std::array<char, 16384> bytes;
  for (;;) {
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) {
      const bool alive = errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
      return alive ? State::kWaiting : State::kLost;
    }
    if (got == 0 || !awaited_) {
      return State::kLost;  // it has ended, or says what nobody asked for
    }
    try {
      parser_.add({bytes.data(), static_cast<std::size_t>(got)});
      if (std::optional<HttpResponse> response = parser_.take()) {
        response_ = std::move(*response);
        awaited_ = false;
        reusable_ = reusable_ && !parser_.is_last() && !parser_.has_rest();
        return State::kAnswered;
      }
    } catch (const Error&) {
      return State::kLost;  // no node of ours
    }
  }
}

HttpResponse NodeLink::take_response() { return std::exchange(response_, {}); }

std::string forwarded_bytes(const HttpRequest& request, const std::string& id,
                            const std::string& from, const Node& to) {
  std::string bytes =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nX-Mcnb-Node: {}\r\nX-Forwarded-For: {}\r\n",
                  request.method == "HEAD" ? "GET" : request.method, request.path,
                  request.host.empty() ? to.address : request.host, from, request.client.text());
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) {
      fmt::format_to(std::back_inserter(bytes), "{}: {}\r\n", name, value);
    }
  };
  add("X-Mcnb-Id", id);
  add("X-API-Key", request.key);
  add("Content-Type", request.content_type);
  fmt::format_to(std::back_inserter(bytes), "Content-Length: {}\r\n\r\n", request.body.size());
  return bytes + request.body;
}

}  // namespace mcnb
