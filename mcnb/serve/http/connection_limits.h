#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "mcnb/serve/http/client_address.h"

namespace mcnb {

// Decides which connections may be open at once, so that nobody can keep others out:
// - an address may have `most_per_address` connections, unless it is a trusted proxy;
// - when all are taken, a new one replaces one that has been waiting for its client for a while,
//   of the address that has the most; at once if that address has more than the new client's;
// - if there is none, it gets one of the reserved ones, which serve only the health and the
//   administration of the service, and which are taken back from those who have sent nothing yet.
// For one thread.
class ConnectionLimits {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Id = std::uint64_t;

  struct Limits {
    std::size_t most = 1024;             // connections, without the reserved ones
    std::size_t most_per_address = 256;  // 0: no limit
    std::size_t reserved = 16;
  };
  // Seconds for which a connection must have waited for its client before it can be replaced.
  static constexpr double kPatience = 0.5;

  // One connection.
  struct Guest {
    ClientAddress group;
    bool trusted = false;
    bool reserved = false;
    std::optional<Time> waiting_since;  // for the client to send or to read; nullopt: it is served
    const std::size_t* group_size = nullptr;  // connections of the group
  };
  struct Entry {
    Guest* guest = nullptr;        // nullptr: the connection is refused; valid until `leave`
    std::optional<Id> to_replace;  // must be closed, and leaves by this call
  };

  explicit ConnectionLimits(const Limits& limits) : limits_(limits) {}

  // A new connection, which waits for its client. `id` must be new.
  Entry enter(Id id, const ClientAddress& address, bool trusted, Time now);
  void leave(Id id);
  // Takes out the connection that `enter` would replace first, so that the caller can close it.
  std::optional<Id> give_up_one(Time now);

  std::size_t count() const { return guests_.size(); }

 private:
  struct Group {
    std::size_t count = 0;
    std::size_t reserved = 0;
  };
  template <class MayGo>
  std::optional<Id> first_to_go(const MayGo& may_go) const;
  std::optional<Id> replaceable(const ClientAddress& group, bool only_own, Time now) const;
  bool take_reserved(const ClientAddress& group, bool trusted, Entry& entry) const;

  Limits limits_;
  std::unordered_map<Id, Guest> guests_;
  std::map<ClientAddress, Group> groups_;
  std::size_t reserved_ = 0;  // in use
};

double seconds_between(ConnectionLimits::Time begin, ConnectionLimits::Time end);

}  // namespace mcnb
