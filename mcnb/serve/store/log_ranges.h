#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "mcnb/serve/store/storage.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// Digests of ranges of rows of the log: how many rows each range of positions has, and the sum of
// their checksums. A row that is lost does not show in the log itself, because positions may have
// gaps: erased rows are taken out of their digest in the transaction that erases them.

inline constexpr std::uint64_t kRangePositions = 1024;
// Range n of a model holds the positions from n * 1024 to n * 1024 + 1023.
inline std::uint64_t range_of(std::uint64_t position) { return position / kRangePositions; }

struct RangeDigest {
  std::uint64_t rows = 0;
  std::uint64_t sum = 0;  // of their checksums, modulo 2^64

  bool operator==(const RangeDigest&) const = default;
  void add(std::uint64_t checksum) {
    ++rows;
    sum += checksum;
  }
};

// Changes of the digests in one transaction. Collect them, then write them once.
class RangeChanges {
 public:
  void add(std::uint32_t model, std::uint64_t position, std::uint64_t checksum);
  void subtract(std::uint32_t model, std::uint64_t position, std::uint64_t checksum);
  // Must run in the transaction that changes the rows. Throws Error (kCorrupt) for a damaged
  // digest.
  void write(Database& database);

 private:
  std::map<std::pair<std::uint32_t, std::uint64_t>, RangeDigest> changes_;
};

// The digest of a range; empty if there is none. Throws Error (kCorrupt) if it is damaged.
RangeDigest read_range(Database& database, std::uint32_t model, std::uint64_t range);
// Drops the digests of the ranges that end at or before the position.
void drop_ranges(Database& database, std::uint32_t model, std::uint64_t position);

// The rows of a model from a position on, each verified against its checksum and every range
// against its digest. Requires a read transaction for as long as it lives. Throws Error (kCorrupt)
// naming the rows.
class VerifiedRows {
 public:
  // Rows at or before `after` are counted, but neither read whole nor returned.
  VerifiedRows(Database& database, std::uint32_t model, std::uint64_t after);

  // Returns false after the last row.
  bool next(LogRow& row);

 private:
  void finish_range();
  [[noreturn]] void fail(std::uint64_t first, std::uint64_t last, const std::string& what) const;

  Database& database_;
  std::uint32_t model_;
  std::uint64_t range_;
  RangeDigest digest_;
  std::unique_ptr<Statement> rows_;
  std::unique_ptr<Statement> later_ranges_;
};

// Verifies one range and appends what is damaged. Returns the bytes of its rows.
std::uint64_t verify_range(Database& database, std::uint32_t model, std::uint64_t range,
                           std::vector<Damage>& found);

// Reads a row from the columns model, position, kind, time, user, body. Does not verify it.
LogRow row_of(const Statement& statement);

}  // namespace mcnb
