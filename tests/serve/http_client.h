#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mcnb {

// The connection was lost, or could not be made.
struct ConnectionLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct HttpReply {
  int status = 0;
  std::string head;
  std::string body;
};

// A plain HTTP/1.1 client of one connection to this machine, which it keeps open.
class HttpClient {
 public:
  // `patience`: how long it waits for a reply.
  explicit HttpClient(std::uint16_t port, std::string key = "",
                      std::chrono::seconds patience = std::chrono::seconds(30))
      : port_(port), key_(std::move(key)), patience_(patience) {}
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpReply get(const std::string& path) { return send("GET", path, ""); }
  HttpReply post(const std::string& path, const std::string& body) {
    return send("POST", path, body);
  }
  HttpReply send(const std::string& method, const std::string& path, const std::string& body) {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n";
    if (!key_.empty()) {
      text += "X-API-Key: " + key_ + "\r\n";
    }
    if (!body.empty() || method == "POST") {
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n";
    }
    send_raw(text + "\r\n" + body);
    return read_reply();
  }

  // Stops sending if the other side has closed the connection. A reply that was sent before can
  // still be read; reading fails if there was no reply.
  void send_raw(std::string_view bytes) {
    connect();
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  HttpReply read_reply() {
    std::size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      read_more();
    }
    HttpReply reply;
    reply.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    reply.status = std::atoi(reply.head.c_str() + std::strlen("HTTP/1.1 "));
    if (reply.status == 100) {
      return read_reply();
    }
    const std::size_t length = reply.head.find("Content-Length: ");
    const std::size_t wanted =
        length == std::string::npos
            ? 0
            : static_cast<std::size_t>(std::atoll(reply.head.c_str() + length + 16));
    while (buffer_.size() < wanted) {
      read_more();
    }
    reply.body = buffer_.substr(0, wanted);
    buffer_.erase(0, wanted);
    if (reply.head.find("Connection: close") != std::string::npos) {
      close();
    }
    return reply;
  }

  // True once the other side has ended the connection.
  bool ended() {
    char byte = 0;
    const ssize_t got = ::recv(socket_, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  void connect() {
    if (socket_ >= 0) {
      return;
    }
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = patience_.count(), .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      lose("cannot connect");
    }
  }

  void read_more() {
    char some[16384];
    const ssize_t got = ::recv(socket_, some, sizeof some, 0);
    if (got <= 0) {
      lose("the connection ended");
    }
    buffer_.append(some, static_cast<std::size_t>(got));
  }

  [[noreturn]] void lose(const char* why) {
    close();
    throw ConnectionLost(why);
  }

  void close() {
    if (socket_ >= 0) {
      ::close(socket_);
    }
    socket_ = -1;
    buffer_.clear();
  }

  std::uint16_t port_;
  std::string key_;
  std::chrono::seconds patience_;
  int socket_ = -1;
  std::string buffer_;
};

}  // namespace mcnb
