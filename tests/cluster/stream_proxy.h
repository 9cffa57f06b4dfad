#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace mcnb::cases {

// Stands between a service and its PostgreSQL server: passes on what comes on a socket of its own,
// late if it is told so, and cuts all connections if it is told so.
class StreamProxy {
 public:
  // Both are folders with a socket named as PostgreSQL names it.
  StreamProxy(const std::filesystem::path& listens, const std::filesystem::path& server)
      : server_(socket_in(server)), listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(socket_in(listens));
    ::unlink(address.sun_path);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 64) != 0) {
      throw std::runtime_error("the proxy cannot listen");
    }
    thread_ = std::thread([this] { run(); });
  }
  ~StreamProxy() {
    stopping_ = true;
    thread_.join();
    pairs_.clear();
    ::close(listener_);
  }
  StreamProxy(const StreamProxy&) = delete;
  StreamProxy& operator=(const StreamProxy&) = delete;

  // Ends all connections at once; what was under way is lost.
  void cut() { cut_ = true; }
  // From now on every piece of bytes is passed on so much later.
  void delay(std::chrono::milliseconds time) { delay_ = time.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Piece {
    Clock::time_point due;
    std::string bytes;
  };
  struct Direction {
    int from;
    int to;
    std::deque<Piece> late;
  };
  struct Pair {
    Pair(int client_socket, int server_socket) : client(client_socket), server(server_socket) {}
    ~Pair() {
      ::close(client);
      ::close(server);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    int client;
    int server;
    Direction up{client, server, {}};
    Direction down{server, client, {}};
  };

  static std::string socket_in(const std::filesystem::path& folder) {
    return (folder / ".s.PGSQL.5432").string();
  }
  static sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
  }

  void run() {
    while (!stopping_) {
      std::vector<pollfd> files{{listener_, POLLIN, 0}};
      for (const auto& pair : pairs_) {
        files.push_back({pair->client, POLLIN, 0});
        files.push_back({pair->server, POLLIN, 0});
      }
      ::poll(files.data(), files.size(), 5);
      if (cut_.exchange(false)) {
        pairs_.clear();
        continue;
      }
      for (std::size_t i = pairs_.size(); i-- > 0;) {
        Pair& pair = *pairs_[i];
        if (!pass(pair.up, files[1 + 2 * i].revents) ||
            !pass(pair.down, files[2 + 2 * i].revents)) {
          pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      if ((files[0].revents & POLLIN) != 0) {
        accept();
      }
    }
  }

  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto pair = std::make_unique<Pair>(client, server);
    const sockaddr_un address = address_of(server_);
    if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      pairs_.push_back(std::move(pair));
    }
  }

  // Returns false if the connection has ended.
  bool pass(Direction& direction, short events) {
    if (events != 0) {
      std::string bytes(65536, '\0');
      const ssize_t got = ::recv(direction.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) {
        return false;
      }
      bytes.resize(static_cast<std::size_t>(got));
      direction.late.push_back(
          {Clock::now() + std::chrono::milliseconds(delay_), std::move(bytes)});
    }
    while (!direction.late.empty() && direction.late.front().due <= Clock::now()) {
      const std::string& bytes = direction.late.front().bytes;
      for (std::size_t sent = 0; sent < bytes.size();) {
        const ssize_t more =
            ::send(direction.to, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) {
          return false;
        }
        sent += static_cast<std::size_t>(more);
      }
      direction.late.pop_front();
    }
    return true;
  }

  std::string server_;
  int listener_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> cut_{false};
  std::atomic<std::int64_t> delay_{0};
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::thread thread_;
};

}  // namespace mcnb::cases
