#include "mcnb/serve/store/log_migration.h"

#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/bytes.h"
#include "mcnb/serve/model/event_keys.h"
#include "mcnb/serve/model/model_options.h"
#include "mcnb/serve/store/event_ids.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_ranges.h"
#include "mcnb/serve/store/log_tables.h"

namespace mcnb {
namespace {

constexpr std::int64_t kDay = 86'400'000;  // milliseconds
constexpr std::size_t kIdsAtOnce = 10'000;

// Rows keep their positions, so their checksums and the snapshots stay valid. A snapshot may stand
// at any position that the whole log had reached: every model goes on after the last of them.
constexpr const char* kSeparatePositions = R"(
ALTER TABLE models RENAME TO older_models;
ALTER TABLE log RENAME TO older_log;
CREATE TABLE models(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options BLOB NOT NULL,
                    complete INTEGER NOT NULL, last_position INTEGER NOT NULL);
)";
constexpr const char* kMoveRows = R"(
INSERT INTO log(model, position, kind, time, user, body, checksum)
  SELECT model, place, kind, time, user, body, checksum FROM older_log ORDER BY place;
INSERT INTO models
  SELECT id, name, options,
         whole AND born >= (SELECT value FROM facts WHERE name = 'base'),
         max((SELECT value FROM facts WHERE name = 'last'),
             coalesce((SELECT max(place) FROM older_log), 0))
  FROM older_models;
DROP TABLE older_log;
DROP TABLE older_models;
DELETE FROM facts WHERE name IN ('base', 'last');
)";

constexpr const char* kSetSmallTablesAside = R"(
ALTER TABLE models RENAME TO old_models;
ALTER TABLE facts RENAME TO old_facts;
ALTER TABLE erasures RENAME TO old_erasures;
DROP TABLE probe;
)";
constexpr const char* kDropOldTables = R"(
DROP TABLE old_models;
DROP TABLE old_facts;
DROP TABLE old_erasures;
INSERT INTO probe VALUES(x'');
)";

std::int64_t old_fact(Database& database, const char* name) {
  Statement statement(database, "SELECT value FROM old_facts WHERE name = ?1");
  if (!statement.bind(1, std::string_view(name)).next()) {
    throw Error(ErrorKind::kCorrupt,
                database.name() + ": table facts: there is no row \"" + name + "\"");
  }
  return statement.number(0);
}

void move_small_tables(Database& database) {
  write_fact(database, facts::kHighestModel, to_unsigned(old_fact(database, "model")));
  write_fact(database, facts::kFolder, to_unsigned(old_fact(database, "folder")));
  write_fact(database, facts::kCopy, random_number(database));
  for (const char* name : {facts::kCommit, facts::kModels, facts::kErasures}) {
    write_fact(database, name, 0);
  }
  Statement models(database,
                   "SELECT id, name, options, complete, last_position FROM old_models ORDER BY id");
  while (models.next()) {
    StoredModel model;
    model.id = static_cast<std::uint32_t>(models.number(0));
    model.name = std::string(models.bytes(1));
    model.options =
        decode_options(models.bytes(2), database.name() + ": options of model " + model.name);
    model.complete = models.number(3) != 0;
    model.last_position = to_unsigned(models.number(4));
    add_model(database, model);
  }
  Statement erasures(database, "SELECT model, user, until FROM old_erasures");
  while (erasures.next()) {
    put_erasure(database, {static_cast<std::uint32_t>(erasures.number(0)),
                           to_unsigned(erasures.number(1)), to_unsigned(erasures.number(2))});
  }
}

// The digests rest on the checksums that the rows have: a row that is damaged already is found by
// its own.
void make_digests(Database& database) {
  Statement rows(database, "SELECT model, position, checksum FROM log ORDER BY model, position");
  RangeChanges changes;
  std::uint64_t count = 0;
  while (rows.next()) {
    changes.add(static_cast<std::uint32_t>(rows.number(0)), to_unsigned(rows.number(1)),
                to_unsigned(rows.number(2)));
    if (++count % (64 * kRangePositions) == 0) {
      changes.write(database);
    }
  }
  changes.write(database);
}

// The ids of the events of a model's last day.
void make_ids(Database& database, const StoredModel& stored) {
  ModelOptions options;
  if (const auto seed = stored.options.find("seed"); seed != stored.options.end()) {
    set_option(options, seed->first, seed->second);
  }
  Statement rows(database,
                 "SELECT position, kind, time, user, body FROM log WHERE model = ?1 AND kind IN "
                 "(2, 3) AND time > (SELECT max(time) FROM log WHERE model = ?1) - ?2 "
                 "ORDER BY position");
  rows.bind(1, stored.id).bind(2, kDay);
  std::vector<EventId> ids;
  while (rows.next()) {
    EventId id{stored.id, 0, to_unsigned(rows.number(0)), rows.number(2),
               to_unsigned(rows.number(3))};
    try {
      ByteReader in(rows.bytes(4), "a row");
      const std::string event = in.read_string(kLongestId);
      id.key = event_id_key(event, options.seed);
      if (static_cast<EventKind>(rows.number(1)) == EventKind::kReward) {
        id.key = reward_id_key(id.key, in.read_string(kLongestId));
      }
    } catch (const Error&) {
      continue;  // damaged: whoever verifies the row will say so
    }
    if (id.key != 0) {
      ids.push_back(id);
    }
    if (ids.size() == kIdsAtOnce) {
      put_ids(database, ids);
      ids.clear();
    }
  }
  put_ids(database, ids);
}

}  // namespace

void write_first_facts(Database& database) {
  write_fact(database, facts::kHighestModel, 0);
  write_fact(database, facts::kFolder, random_number(database));
  write_fact(database, facts::kCopy, random_number(database));
  for (const char* name : {facts::kCommit, facts::kModels, facts::kErasures}) {
    write_fact(database, name, 0);
  }
}

const char* advice_for(std::int64_t layout) {
  return layout == kLayoutOfSharedPositions
             ? "it needs free space of about twice the database's size"
             : "it reads the whole database once";
}

void migrate_log(Database& database, std::int64_t layout) {
  if (layout == kLayoutOfSharedPositions) {
    database.run((std::string(kSeparatePositions) + kLogTable + kMoveRows).c_str());
  }
  database.run((std::string(kSetSmallTablesAside) + kModelsTable + kOtherTables).c_str());
  move_small_tables(database);
  database.run(kDropOldTables);
  make_digests(database);
  for (const StoredModel& model : read_models(database)) {
    make_ids(database, model);
  }
}

}  // namespace mcnb
