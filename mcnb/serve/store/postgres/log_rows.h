#pragma once

#include "mcnb/serve/store/storage.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {

// What a row takes beside its body, about.
inline constexpr std::uint64_t kRowBytes = 64;

// The columns that the readers below expect.
inline constexpr const char* kRowColumns = "model, position, kind, time, user_hash, body, checksum";
inline constexpr const char* kIdColumns = "model, key, position, time, user_hash, checksum";

// A row as it is stored. Throws Error (kCorrupt), naming the store and the row, if its checksum
// does not match.
LogRow checked_row(const PostgresRows& rows, std::size_t i, const std::string& store);
EventId checked_id(const PostgresRows& rows, std::size_t i, const std::string& store);

// What the rows of a range are and should be: their number, and all checksums combined by
// exclusive or.
struct PostgresRange {
  std::int64_t rows = 0;
  std::uint64_t digest = 0;

  bool operator==(const PostgresRange&) const = default;
  void add(std::uint64_t checksum) {
    ++rows;
    digest ^= checksum;
  }
};
std::string difference_of(const PostgresRange& found, const PostgresRange& written);

}  // namespace mcnb
