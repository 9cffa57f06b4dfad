#pragma once

#include <cstdint>

#include "mcnb/storage/sqlite.h"

namespace mcnb {

// The tables of a data folder's SQLite database (docs/FORMATS.md). The layout is its user_version.

inline constexpr std::int64_t kLogLayout = 4;

// Makes the tables in an empty database, and brings those of layouts 2 and 3 to the present layout
// in one transaction: a crash in the middle leaves the old ones. Requires the right to write, and
// that no other connection is open. Throws Error (kCorrupt) for any other database.
void prepare_log_schema(Database& database);

// Throws Error (kCorrupt) unless the database has the present layout and exactly its tables; the
// message says what to do.
void check_log_schema(Database& database);

// True if the database is empty or has an older layout, which prepare_log_schema would change.
bool needs_log_schema(Database& database);

}  // namespace mcnb
