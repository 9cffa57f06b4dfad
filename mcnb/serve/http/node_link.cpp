#include "mcnb/serve/http/node_link.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/request_parser.h"

namespace mcnb {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kMostHead = std::size_t{64} << 10;

std::size_t number_in(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The types that endpoints which are forwarded can have.
const char* content_type_of(std::string_view text) {
  for (const char* type : {"application/json", "text/plain; version=0.0.4"}) {
    if (text == type) {
      return type;
    }
  }
  return "application/octet-stream";
}

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
  head_bytes_ = 0;
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
    in_.append(bytes.data(), static_cast<std::size_t>(got));
    try {
      if (parse()) {
        return State::kAnswered;
      }
    } catch (const Error&) {
      return State::kLost;
    }
  }
}

// Returns true once the response is complete.
bool NodeLink::parse() {
  if (head_bytes_ == 0) {
    const std::size_t end = in_.find(kHeadEnd);
    if (end == std::string::npos) {
      if (in_.size() > kMostHead) {
        throw Error(ErrorKind::kSystem, "the head of a response is too long");
      }
      return false;
    }
    head_bytes_ = end + kHeadEnd.size();
    if (!parse_head(std::string_view(in_).substr(0, end))) {
      throw Error(ErrorKind::kSystem, "malformed response");
    }
  }
  if (in_.size() < head_bytes_ + body_bytes_) {
    return false;
  }
  response_.body = in_.substr(head_bytes_, body_bytes_);
  in_.erase(0, head_bytes_ + body_bytes_);
  awaited_ = false;
  return true;
}

bool NodeLink::parse_head(std::string_view head) {
  body_bytes_ = 0;
  if (!head.starts_with("HTTP/1.1 ") || head.size() < 12) {
    return false;
  }
  response_.status = static_cast<int>(number_in(head.substr(9, 3)));
  for (std::size_t line = head.find("\r\n"); line != std::string_view::npos;
       line = head.find("\r\n", line + 2)) {
    const std::size_t begin = line + 2;
    const std::string_view text = head.substr(begin, head.find("\r\n", begin) - begin);
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      return false;
    }
    const std::string name = lower_case(text.substr(0, colon));
    const std::string_view value = without_blanks(text.substr(colon + 1));
    if (name == "content-length") {
      body_bytes_ = number_in(value);
    } else if (name == "content-type") {
      response_.content_type = content_type_of(value);
    } else if (name == "retry-after") {
      response_.retry_after = static_cast<int>(number_in(value));
    } else if (name == "allow") {
      response_.allow = value;
    } else if (name == "connection") {
      reusable_ = reusable_ && value != "close";
    } else if (name == "transfer-encoding") {
      return false;
    }
  }
  return response_.status >= 200 && response_.status <= 599;
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
