#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/serve/store/storage.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// The table of the ids of events, in the order of model and key. Digests of 256 buckets of keys
// make the loss of a row show. What changes the table must run in a transaction. Throws Error
// (kCorrupt) for damage.

inline constexpr std::uint32_t kIdBuckets = 256;

void put_ids(Database& database, std::span<const EventId> ids);
void erase_ids(Database& database, std::span<const EventId> ids);

// Finds ids by their keys, with a statement that is kept. A handle for one thread.
class IdFinder {
 public:
  explicit IdFinder(Database& database);
  std::optional<EventId> find(std::uint32_t model, std::uint64_t key);

 private:
  Database& database_;
  Statement statement_;
};

// The ids after a given one, at most `limit`. Start with an empty id.
std::vector<EventId> ids_after(Database& database, const EventId& after, std::size_t limit);
// A user's ids up to a position.
std::vector<EventId> ids_of_user(Database& database, const Erasure& erasure);

// Verifies the ids of one bucket and appends what is damaged. Requires a read transaction. Returns
// the bytes of its rows.
std::uint64_t verify_ids(Database& database, std::uint32_t bucket, std::vector<Damage>& found);

}  // namespace mcnb
