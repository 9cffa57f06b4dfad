#include "mcnb/serve/http/connection_watch.h"

#include <sys/socket.h>

namespace mcnb {

class ConnectionWatch::Connection {
 public:
  int socket = -1;  // -1 after it was shut down
  Phase phase = Phase::kIdle;
  Time since;
  std::list<Connection>::iterator self;
};

ConnectionWatch::ConnectionWatch(const Limits& limits)
    : limits_(limits), thread_([this] { watch(); }) {}

ConnectionWatch::~ConnectionWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

ConnectionWatch::Connection* ConnectionWatch::add(int socket) {
  const std::lock_guard lock(mutex_);
  Connection& connection = connections_.emplace_front();
  connection.socket = socket;
  connection.since = std::chrono::steady_clock::now();
  connection.self = connections_.begin();
  return &connection;
}

void ConnectionWatch::remove(Connection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection->self);
}

void ConnectionWatch::enter(Connection* connection, Phase phase) {
  const std::lock_guard lock(mutex_);
  connection->phase = phase;
  connection->since = std::chrono::steady_clock::now();
}

double ConnectionWatch::seconds_allowed(Phase phase) const {
  switch (phase) {
    case Phase::kHeaders:
      return limits_.headers;
    case Phase::kBody:
      return limits_.body;
    case Phase::kIdle:
    case Phase::kResponse:
      return limits_.idle;
  }
  return 0.0;
}

void ConnectionWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stopping_; })) {
    const Time now = std::chrono::steady_clock::now();
    for (Connection& connection : connections_) {
      const double seconds = std::chrono::duration<double>(now - connection.since).count();
      if (connection.socket >= 0 && seconds > seconds_allowed(connection.phase)) {
        ::shutdown(connection.socket, SHUT_RDWR);
        connection.socket = -1;
      }
    }
  }
}

}  // namespace mcnb
