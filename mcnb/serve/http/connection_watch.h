#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

namespace mcnb {

// Ends connections that stay in one phase of a request for too long, even if they send a byte now
// and then; the time limit of libmicrohttpd would begin again with every byte. Safe from many
// threads.
class ConnectionWatch {
 public:
  enum class Phase : std::uint8_t { kIdle, kHeaders, kBody, kResponse };
  // Seconds that a connection may stay in a phase.
  struct Limits {
    double idle = 0.0;  // also for kResponse
    double headers = 0.0;
    double body = 0.0;
  };
  class Connection;

  // Starts the thread that watches.
  explicit ConnectionWatch(const Limits& limits);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // A new connection is idle. The pointer is valid until `remove`, which must come before the
  // socket is closed.
  Connection* add(int socket);
  void remove(Connection* connection);
  void enter(Connection* connection, Phase phase);

 private:
  using Time = std::chrono::steady_clock::time_point;

  double seconds_allowed(Phase phase) const;
  void watch();

  Limits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Connection> connections_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mcnb
