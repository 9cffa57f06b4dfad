#pragma once

#include <cstdint>

#include "mcnb/storage/sqlite.h"

namespace mcnb {

// Positions counted over all models together, and every model knew the one before its first event.
inline constexpr std::int64_t kLayoutOfSharedPositions = 2;
// The small tables had no checksums, and there were neither digests nor ids.
inline constexpr std::int64_t kLayoutWithoutDigests = 3;

// The statements that make the tables of the present layout.
inline constexpr const char* kModelsTable = R"(
CREATE TABLE models(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options BLOB NOT NULL,
                    complete INTEGER NOT NULL, last_position INTEGER NOT NULL,
                    checksum INTEGER NOT NULL);
)";
inline constexpr const char* kLogTable = R"(
CREATE TABLE log(id INTEGER PRIMARY KEY, model INTEGER NOT NULL, position INTEGER NOT NULL,
                 kind INTEGER NOT NULL, time INTEGER NOT NULL, user INTEGER NOT NULL,
                 body BLOB NOT NULL, checksum INTEGER NOT NULL, UNIQUE(model, position));
)";
inline constexpr const char* kOtherTables = R"(
CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE erasures(model INTEGER NOT NULL, user INTEGER NOT NULL, until INTEGER NOT NULL,
                      checksum INTEGER NOT NULL);
CREATE TABLE ranges(model INTEGER NOT NULL, number INTEGER NOT NULL, row_count INTEGER NOT NULL,
                    digest INTEGER NOT NULL, checksum INTEGER NOT NULL,
                    PRIMARY KEY(model, number)) WITHOUT ROWID;
CREATE TABLE event_ids(model INTEGER NOT NULL, key INTEGER NOT NULL, position INTEGER NOT NULL,
                       time INTEGER NOT NULL, user INTEGER NOT NULL, checksum INTEGER NOT NULL,
                       PRIMARY KEY(model, key)) WITHOUT ROWID;
CREATE TABLE event_id_digests(bucket INTEGER PRIMARY KEY, row_count INTEGER NOT NULL,
                              digest INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE probe(bytes BLOB NOT NULL);
)";

// Writes the facts of a database that has just been made. Must run in a transaction.
void write_first_facts(Database& database);

// What a migration from this layout needs, for people.
const char* advice_for(std::int64_t layout);

// Brings the tables of an older layout to the present one. Rows keep their bytes, their positions
// and their checksums. Ids of the last day become known to the table of ids. Must run in a
// transaction.
void migrate_log(Database& database, std::int64_t layout);

}  // namespace mcnb
