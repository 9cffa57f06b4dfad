#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/storage/postgres.h"

namespace mcnb {

// The tables of the service in the schema `mcnb` of a PostgreSQL database (docs/FORMATS.md).

inline constexpr std::int64_t kPostgresLayout = 1;

// Makes the tables in a database without them, in one transaction; does nothing if they are there.
// Requires the right to make a schema. Returns true if something was made. Throws PostgresError,
// and Error (kCorrupt) for tables of another layout.
bool migrate_postgres(const std::string& url);

// Throws Error: kUsage if there are no tables (the message says what to do), kCorrupt if they have
// another layout.
void check_postgres_schema(PostgresConnection& connection);

// What the server's settings take away from the promises of docs/GUARANTEES.md, for people; empty
// if nothing.
std::vector<std::string> weak_settings(PostgresConnection& connection);

}  // namespace mcnb
