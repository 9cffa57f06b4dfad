#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <unordered_set>

#include "mcnb/serve/http/client_address.h"
#include "mcnb/serve/http/connection_limits.h"

namespace mcnb {

// Connections that have something to do, in one line for each client. Clients take turns, one
// connection at a time. For one thread.
class Turns {
 public:
  struct Turn {
    ConnectionLimits::Id id = 0;
    bool answered = false;  // the response that it waits for can be made
  };

  bool empty() const { return lines_.empty(); }
  // Does nothing if the same turn waits already.
  void add(const ClientAddress& client, const Turn& turn);
  std::optional<Turn> next();

 private:
  struct Line {
    ClientAddress client;
    std::deque<Turn> turns;
  };
  static std::uint64_t key_of(const Turn& turn) { return 2 * turn.id + (turn.answered ? 1 : 0); }

  std::list<Line> lines_;  // whose turn it is comes first; none is empty
  std::map<ClientAddress, std::list<Line>::iterator> by_client_;
  std::unordered_set<std::uint64_t> waiting_;
};

}  // namespace mcnb
