#pragma once

#include <cstdint>
#include <string>

namespace mcnb {

// A process that serves, alone or beside others on the same PostgreSQL store.
struct Node {
  std::string instance;  // a random text that no other process has
  std::string name;
  std::string address;  // HOST:PORT, where other nodes reach it; empty if they do not
  bool owner = false;   // holds the lease: it computes all requests
  std::int64_t silent_milliseconds = 0;  // since it was last heard of
  bool leaving = false;  // it is the owner and is about to go: others may load the models ahead
  bool loaded = false;   // it has loaded the owner's models ahead
};

}  // namespace mcnb
