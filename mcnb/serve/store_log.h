#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "mcnb/logs/logged_round.h"

namespace mcnb {

// Which decisions of a data folder are read.
struct StoreLogOptions {
  std::string model;                 // empty: the only one
  std::optional<std::int64_t> from;  // microseconds since 1970
  std::optional<std::int64_t> to;    // before this time
  // Called before each decision, and now and then in between; the reading ends when it returns
  // false.
  std::function<bool()> goes_on = {};
};

struct StoreLogReport {
  std::string model;
  std::uint64_t rounds = 0;
  std::uint64_t unactivated = 0;  // of the rounds: never activated, so marked as excluded
  std::uint64_t waiting = 0;      // decisions left out because their waiting time is not over
  std::uint64_t forgotten = 0;    // decisions left out because their users asked for it
};

// True for what a service keeps its log in: a data folder, or the URL of a PostgreSQL database.
bool is_store(const std::string& where);

// Reads the decisions of a service's store with their rewards, in the order of the decisions,
// while the service may be running; writes nothing, and keeps the service from nothing, however
// long `visit` takes: what it erases meanwhile is left out. A decision counts once its waiting time
// is over, whether or not its reward came early: rewards come before defaults, so a log that took
// each decision as soon as its reward is known would show too many rewards. Features are the hashed
// numbers that the service stores, or what the caller wrote where the model keeps it.
//
// Throws Error: kUsage for an unknown model, kCorrupt for a damaged database, kSystem if the system
// refuses.
StoreLogReport read_store_log(const std::string& where, const StoreLogOptions& options,
                              const VisitRound& visit);

}  // namespace mcnb
