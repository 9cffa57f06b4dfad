#include "mcnb/serve/store/log_schema.h"

#include <fmt/core.h>

#include <string>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

constexpr std::int64_t kApplicationId = 0x4d434e42;  // "MCNB"
// Positions counted over all models together, and every model knew the one before its first event.
constexpr std::int64_t kLayoutOfSharedPositions = 2;

constexpr const char* kModelsAndLog = R"(
CREATE TABLE models(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options BLOB NOT NULL,
                    complete INTEGER NOT NULL, last_position INTEGER NOT NULL);
CREATE TABLE log(id INTEGER PRIMARY KEY, model INTEGER NOT NULL, position INTEGER NOT NULL,
                 kind INTEGER NOT NULL, time INTEGER NOT NULL, user INTEGER NOT NULL,
                 body BLOB NOT NULL, checksum INTEGER NOT NULL, UNIQUE(model, position));
)";

constexpr const char* kOtherTables = R"(
CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE erasures(model INTEGER NOT NULL, user INTEGER NOT NULL, until INTEGER NOT NULL);
CREATE TABLE probe(bytes BLOB NOT NULL);
INSERT INTO facts VALUES('model', 0), ('folder', random() & 0x7fffffffffffffff);
INSERT INTO probe VALUES(x'');
PRAGMA application_id = 0x4d434e42;
)";

// Rows keep their positions, so their checksums and the snapshots stay valid. A snapshot may stand
// at any position that the whole log had reached: every model goes on after the last of them.
constexpr const char* kSeparatePositions = R"(
INSERT INTO log(model, position, kind, time, user, body, checksum)
  SELECT model, place, kind, time, user, body, checksum FROM old_log ORDER BY place;
INSERT INTO models
  SELECT id, name, options,
         whole AND born >= (SELECT value FROM facts WHERE name = 'base'),
         max((SELECT value FROM facts WHERE name = 'last'),
             coalesce((SELECT max(place) FROM old_log), 0))
  FROM old_models;
DROP TABLE old_log;
DROP TABLE old_models;
DELETE FROM facts WHERE name IN ('base', 'last');
)";

std::int64_t layout_of(Database& database) {
  if (database.number("PRAGMA application_id") != kApplicationId) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: not a database of mcnb serve: check the data folder", database.name()));
  }
  return database.number("PRAGMA user_version");
}

// Runs statements and sets the present layout, all or nothing.
void change_layout(Database& database, const std::string& statements) {
  try {
    database.run(
        fmt::format("BEGIN IMMEDIATE;{}PRAGMA user_version = {};COMMIT;", statements, kLogLayout)
            .c_str());
  } catch (const Error&) {
    try {
      database.run("ROLLBACK");
    } catch (const Error&) {
      // SQLite has rolled back by itself.
    }
    throw;
  }
}

}  // namespace

void prepare_log_schema(Database& database) {
  if (database.number("SELECT count(*) FROM sqlite_schema") == 0) {
    change_layout(database, std::string(kModelsAndLog) + kOtherTables);
    return;
  }
  if (layout_of(database) == kLayoutOfSharedPositions) {
    log_info("migrating the log",
             {{"database", database.name()},
              {"detail", "it needs free space of about twice the database's size"}});
    change_layout(database, std::string("ALTER TABLE models RENAME TO old_models;"
                                        "ALTER TABLE log RENAME TO old_log;") +
                                kModelsAndLog + kSeparatePositions);
    log_info("migrated the log", {{"layout", std::to_string(kLogLayout)}});
  }
  check_log_schema(database);
}

void check_log_schema(Database& database) {
  const std::int64_t layout = layout_of(database);
  if (layout == kLogLayout) {
    return;
  }
  const char* advice = "use the version of mcnb that wrote it";
  if (layout == kLayoutOfSharedPositions) {
    advice =
        "an earlier version of mcnb wrote it: start `mcnb serve` on the folder once, which "
        "brings it to the present layout";
  }
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: the database has layout {}, but this version of mcnb reads layout "
                          "{}: {}",
                          database.name(), layout, kLogLayout, advice));
}

}  // namespace mcnb
