#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/storage/postgres.h"

namespace mcnb {

// The tables of the service in the schema `mcnb` of a PostgreSQL database (docs/FORMATS.md).

inline constexpr std::int64_t kPostgresLayout = 2;

enum class Migrated : std::uint8_t { kNothing, kMade, kChanged };
// Makes the tables in a database without them, or brings those of an older layout to this one, in
// one transaction. Nodes that use an older layout may go on meanwhile. Requires the right to make a
// schema. Throws PostgresError, and Error (kCorrupt) for tables of a newer layout.
Migrated migrate_postgres(const std::string& url);

// Throws Error: kUsage if there are no tables, or of an older layout (the message says what to do),
// kCorrupt if they have a newer layout.
void check_postgres_schema(PostgresConnection& connection);

// What the server's settings take away from the promises of docs/GUARANTEES.md, for people; empty
// if nothing.
std::vector<std::string> weak_settings(PostgresConnection& connection);

}  // namespace mcnb
