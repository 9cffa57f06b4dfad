#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace mcnb {

// A file server on this machine that answers one request after the other.
class LocalServer {
 public:
  struct Page {
    std::string body;
    bool ranges = true;                   // whether range requests are answered
    std::size_t cut = std::string::npos;  // bytes of the body after which the connection breaks
  };

  LocalServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (listener_ < 0 || ::bind(listener_, any, size) != 0 || ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, any, &size) != 0) {
      throw std::runtime_error("no server on this machine");
    }
    port_ = ntohs(address.sin_port);
    ::setenv("no_proxy", "*", 1);
    thread_ = std::thread([this] { serve(); });
  }
  ~LocalServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  std::string url(const std::string& name) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }

  void put(const std::string& name, Page page) {
    const std::lock_guard lock(mutex_);
    pages_[name] = std::move(page);
  }

  // The requests since the last call: "a.csv", or "a.csv from 1000".
  std::vector<std::string> take_requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

 private:
  void serve() {
    for (int peer = 0; (peer = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(peer)) {
      std::string request;
      char block[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t count = ::recv(peer, block, sizeof block, 0);
        if (count <= 0) {
          break;
        }
        request.append(block, static_cast<std::size_t>(count));
      }
      const std::string reply = answer(request);
      for (std::size_t sent = 0; sent < reply.size();) {
        const ssize_t count = ::send(peer, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) {
          break;
        }
        sent += static_cast<std::size_t>(count);
      }
      ::shutdown(peer, SHUT_WR);
    }
  }

  std::string answer(const std::string& request) {
    constexpr std::string_view kRange = "Range: bytes=";
    const std::string name = request.substr(5, request.find(' ', 5) - 5);
    const std::size_t range = request.find(kRange);
    const std::size_t from =
        range == std::string::npos ? 0 : std::stoul(request.substr(range + kRange.size()));
    const std::lock_guard lock(mutex_);
    requests_.push_back(name + (from == 0 ? "" : " from " + std::to_string(from)));
    const auto found = pages_.find(name);
    if (found == pages_.end()) {
      return head("404 Not Found", 0);
    }
    const Page& page = found->second;
    const std::size_t size = page.body.size();
    if (from == 0 || !page.ranges) {
      return head("200 OK", size) + page.body.substr(0, page.cut);
    }
    if (from >= size) {
      return head("416 Range Not Satisfiable", 0);
    }
    return head("206 Partial Content", size - from,
                "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(size - 1) +
                    "/" + std::to_string(size) + "\r\n") +
           page.body.substr(from);
  }

  static std::string head(const std::string& status, std::size_t length,
                          const std::string& more = "") {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(length) +
           "\r\nConnection: close\r\n" + more + "\r\n";
  }

  int listener_;
  int port_ = 0;
  std::mutex mutex_;
  std::map<std::string, Page> pages_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace mcnb
