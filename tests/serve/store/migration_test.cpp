// Data folders of older layouts are migrated to the present one without losing anything: in layout
// 2 positions counted over all models together, in layout 3 there were no digests and no witness.

#include <gtest/gtest.h>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/model/event_keys.h"
#include "mcnb/serve/model/model_state.h"
#include "mcnb/serve/server.h"
#include "mcnb/serve/store/log_schema.h"
#include "tests/serve/running_engine.h"

namespace mcnb::migration_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

// The tables of layout 3, filled from those of the present layout.
constexpr const char* kLayout3 = R"(
ALTER TABLE models RENAME TO new_models;
ALTER TABLE facts RENAME TO new_facts;
DROP TABLE erasures;
DROP TABLE ranges;
DROP TABLE event_ids;
DROP TABLE event_id_digests;
CREATE TABLE models(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options BLOB NOT NULL,
                    complete INTEGER NOT NULL, last_position INTEGER NOT NULL);
CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE erasures(model INTEGER NOT NULL, user INTEGER NOT NULL, until INTEGER NOT NULL);
INSERT INTO models SELECT id, name, options, complete, last_position FROM new_models;
INSERT INTO facts SELECT name, value FROM new_facts WHERE name IN ('model', 'folder');
DROP TABLE new_models;
DROP TABLE new_facts;
PRAGMA user_version = 3;)";

// The tables of layout 2, filled from those of layout 3. Positions must differ between models.
// `base`: rows up to here count as trimmed.
std::string layout_2(std::uint64_t base) {
  return R"(
ALTER TABLE models RENAME TO new_models;
ALTER TABLE log RENAME TO new_log;
CREATE TABLE models(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options BLOB NOT NULL,
                    born INTEGER NOT NULL, whole INTEGER NOT NULL);
CREATE TABLE log(place INTEGER PRIMARY KEY, model INTEGER NOT NULL, kind INTEGER NOT NULL,
                 time INTEGER NOT NULL, user INTEGER NOT NULL, body BLOB NOT NULL,
                 checksum INTEGER);
CREATE INDEX log_of_model ON log(model);
INSERT INTO log SELECT position, model, kind, time, user, body, checksum FROM new_log;
INSERT INTO models SELECT id, name, options, id - 1, 1 FROM new_models;
DROP TABLE new_log;
DROP TABLE new_models;
INSERT INTO facts VALUES('base', )" +
         std::to_string(base) + R"(), ('last', 0);
PRAGMA user_version = 2;)";
}

// Rows of two models whose positions take turns: the odd ones are model 1's.
Batch two_models() {
  Batch batch;
  for (const std::uint32_t id : {1U, 2U}) {
    const std::string name = id == 1 ? "m" : "other";
    batch.models.emplace_back(
        StoredModel{.id = id, .name = name, .options = option_values(small_model())});
    Ledger ledger(small_model());
    for (std::uint64_t i = 0; i < 10; ++i) {
      ledger.rank(request_of(100 * id + i, "user-" + std::to_string(i % 3)));
      ledger.reward("event-" + std::to_string(100 * id + i), static_cast<float>(i % 2));
    }
    std::uint64_t position = id;
    for (const Event& event : ledger.events()) {
      batch.rows.push_back({id, position, kind_of(event), 1000, 7, encode_event(event)});
      position += 2;
    }
  }
  return batch;
}

Database database_in(const fs::path& folder) {
  return Database(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite);
}

std::map<std::string, std::uint64_t> digests_of(Storage& storage, bool from_base = false) {
  ThreadPool threads(1);
  ModelHost host(storage, threads);
  host.recover(from_base);
  return host.digests();
}

// The actions of request_of are not of unit length.
TEST(Migration, AModelFromBeforeTheOptionNormaliseTakesArmsAsTheyAre) {
  const TemporaryFolder folder;
  ModelOptions before = small_model();
  set_option(before, "options.normalise", "none");
  Ledger ledger(before);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ledger.rank(request_of(i, "user-" + std::to_string(i % 3)));
    ledger.reward("event-" + std::to_string(i), static_cast<float>(i % 2));
  }
  Batch batch;
  OptionValues stored = option_values(before);
  ASSERT_EQ(stored.erase("options.normalise"), 1U);
  batch.models.emplace_back(StoredModel{.id = 1, .name = "m", .options = stored});
  for (const Event& event : ledger.events()) {
    batch.rows.push_back({1, batch.rows.size() + 1, kind_of(event), 1000, 7, encode_event(event)});
  }
  log_beside(folder.path()).commit(batch);
  const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  EXPECT_EQ(storage->log().models().at(0).options.at("options.normalise"), "none");
  EXPECT_EQ(digests_of(*storage).at("m"), hash_bytes(ledger.state()));
}

TEST(Migration, AModelOfTodayKeepsItsOptionNormalise) {
  const TemporaryFolder folder;
  ModelOptions linear;
  linear.policy = parse_policy("linucb");
  {
    Batch batch;
    batch.models.emplace_back(
        StoredModel{.id = 1, .name = "m", .options = option_values(small_model())});
    batch.models.emplace_back(
        StoredModel{.id = 2, .name = "linear", .options = option_values(linear)});
    log_beside(folder.path()).commit(batch);
  }
  const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  for (const StoredModel& model : storage->log().models()) {
    if (model.name == "m") {
      EXPECT_EQ(model.options.at("options.normalise"), "unit");
    } else {
      EXPECT_EQ(model.options.count("options.normalise"), 0U);
    }
  }
}

// The state of every model before the folder became an old one.
std::map<std::string, std::uint64_t> make_old_folder(const fs::path& folder,
                                                     std::uint64_t base = 0) {
  std::map<std::string, std::uint64_t> digests;
  {
    const auto storage = open_data_folder(folder, StorageAccess::kOwn);
    storage->log().commit(two_models());
    digests = digests_of(*storage);
    // Snapshots stood at the last position of all models.
    ThreadPool threads(1);
    ModelHost host(*storage, threads);
    host.recover();
    const SnapshotJob job = host.snapshot("m");
    storage->snapshots().write(1, storage->log().last_position(2),
                               [&] { return job.state->next(); });
  }
  database_in(folder).run(kLayout3);
  database_in(folder).run(layout_2(base).c_str());
  fs::remove(folder / Witness::kFileName);
  return digests;
}

TEST(Migration, AnOldFolderGivesTheSameStatesAndGoesOn) {
  const TemporaryFolder folder;
  const auto before = make_old_folder(folder.path());
  std::uint64_t last = 0;
  {
    const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    EXPECT_EQ(digests_of(*storage), before);
    EXPECT_EQ(digests_of(*storage, true), before);
    const std::vector<StoredModel> models = storage->log().models();
    ASSERT_EQ(models.size(), 2U);
    last = models[1].last_position;
    EXPECT_EQ(models[0].last_position, last);  // new rows must come after every old snapshot
    EXPECT_TRUE(models[0].complete);
    EXPECT_EQ(storage->log().new_model_id(), 3U);
  }
  {
    RunningEngine running(folder.path());
    running.play(0, 5);
    EXPECT_EQ(running.report().last_position, last + 12);  // two users are new
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
}

TEST(Migration, WhoseLogWasTrimmedIsKnown) {
  const TemporaryFolder folder;
  // Model 1 was made at position 0, model 2 at 1, and rows up to 1 may be missing.
  make_old_folder(folder.path(), 1);
  const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  EXPECT_FALSE(storage->log().models()[0].complete);
  EXPECT_TRUE(storage->log().models()[1].complete);
}

TEST(Migration, WhatFailsInTheMiddleLeavesTheOldFolder) {
  const TemporaryFolder folder;
  const auto before = make_old_folder(folder.path());
  const std::int64_t rows = database_in(folder.path()).number("SELECT count(*) FROM log");
  database_in(folder.path()).run("INSERT INTO log VALUES(1000, 1, 1, 0, 0, x'', NULL)");
  EXPECT_THROW(open_data_folder(folder.path(), StorageAccess::kOwn), Error);
  {
    Database database = database_in(folder.path());
    EXPECT_EQ(database.number("PRAGMA user_version"), 2);
    EXPECT_EQ(database.number("SELECT count(place) FROM log"), rows + 1);
    EXPECT_EQ(database.number("SELECT count(born) FROM models"), 2);
    EXPECT_EQ(database.number("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'old%'"), 0);
    database.run("DELETE FROM log WHERE place = 1000");
  }
  EXPECT_EQ(digests_of(*open_data_folder(folder.path(), StorageAccess::kOwn)), before);
}

// The message with which a folder of this layout is refused.
std::string refusal(const fs::path& folder, StorageAccess access) {
  try {
    open_data_folder(folder, access);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    return error.what();
  }
  return "";
}

TEST(Migration, WhatCannotBeReadIsRefusedWithAdvice) {
  const TemporaryFolder folder;
  make_old_folder(folder.path());
  const std::string to_migrate = refusal(folder.path(), StorageAccess::kLook);
  EXPECT_NE(to_migrate.find("layout 2"), std::string::npos) << to_migrate;
  EXPECT_NE(to_migrate.find("start `mcnb serve`"), std::string::npos) << to_migrate;
  for (const int layout : {1, 5}) {
    database_in(folder.path()).run(("PRAGMA user_version = " + std::to_string(layout)).c_str());
    for (const StorageAccess access : {StorageAccess::kOwn, StorageAccess::kLook}) {
      const std::string message = refusal(folder.path(), access);
      EXPECT_NE(message.find("layout " + std::to_string(layout)), std::string::npos) << message;
      EXPECT_NE(message.find("version of mcnb that wrote it"), std::string::npos) << message;
    }
    EXPECT_EQ(database_in(folder.path()).number("PRAGMA user_version"), layout);
  }
  database_in(folder.path()).run("PRAGMA application_id = 5");
  EXPECT_NE(refusal(folder.path(), StorageAccess::kOwn).find("not a database of mcnb"),
            std::string::npos);
}

// A copy of a folder that an earlier version of mcnb wrote.
void copy_layout(const std::string& name, const fs::path& folder) {
  const fs::path source = fs::path(MCNB_SOURCE_DIR) / "tests/serve/store/layouts" / name;
  fs::copy(source, folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

// What must be the same before and after: the bytes of all rows.
std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> rows_in(LogStore& log) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> rows;
  for (const StoredModel& model : log.models()) {
    log.replay(model.id, 0, [&](const LogRow& row) { rows[{row.model, row.position}] = row.body; });
  }
  return rows;
}

TEST(Migration, AKeptFolderOfEveryLayoutStartsAndGoesOn) {
  for (std::int64_t layout = 2; layout <= kLogLayout; ++layout) {
    SCOPED_TRACE("layout " + std::to_string(layout));
    const TemporaryFolder folder;
    copy_layout("layout-" + std::to_string(layout), folder.path());
    ASSERT_EQ(database_in(folder.path()).number("PRAGMA user_version"), layout);
    const std::int64_t count = database_in(folder.path()).number("SELECT count(*) FROM log");
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> rows;
    std::map<std::string, std::uint64_t> digests;
    {
      const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
      rows = rows_in(storage->log());
      EXPECT_EQ(rows.size(), static_cast<std::size_t>(count));
      EXPECT_TRUE(storage->log().verify_all().empty());
      digests = digests_of(*storage);
      EXPECT_EQ(digests_of(*storage, true), digests);
    }
    EXPECT_EQ(database_in(folder.path()).number("PRAGMA user_version"), kLogLayout);
    EXPECT_TRUE(fs::exists(folder / Witness::kFileName));
    {
      RunningEngine running(folder.path());
      running.play(1000, 1003);
    }
    const Verification states = verify_data(folder.path().string(), 1);
    EXPECT_TRUE(states.agree) << states.lines.front();
    const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    const auto after = rows_in(storage->log());
    for (const auto& [key, body] : rows) {
      EXPECT_TRUE(after.at(key) == body) << key.first << " " << key.second;
    }
  }
}

// The rows of layout 3 are of the same hour, and the models remember nothing of the trimmed ones.
TEST(Migration, IdsOfTheLastDayAreKnownAfterAMigration) {
  const TemporaryFolder folder;
  copy_layout("layout-3", folder.path());
  const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  for (const StoredModel& model : storage->log().models()) {
    const std::uint64_t seed = stored_model_options(model.options).seed;
    for (int i = 0; i < 10; ++i) {
      const std::uint64_t key = event_id_key(model.name + "-" + std::to_string(i), seed);
      const auto found = storage->log().find_id(model.id, key);
      ASSERT_TRUE(found.has_value()) << model.name << " " << i;
      const auto row = storage->log().read(model.id, found->position);
      ASSERT_TRUE(row.has_value());
      EXPECT_EQ(row->kind, EventKind::kDecision);
      EXPECT_EQ(row->user, found->user);
      EXPECT_EQ(storage->log().find_id(model.id, reward_id_key(key, "r")).has_value(), i % 2 == 0);
    }
  }
}

TEST(Migration, ARowThatWasDamagedBeforeIsNamedAndNotLostOnTheWay) {
  const TemporaryFolder folder;
  copy_layout("layout-3", folder.path());
  database_in(folder.path()).run("UPDATE log SET body = x'00' WHERE model = 2 AND position = 3");
  EXPECT_NE(refusal(folder.path(), StorageAccess::kOwn).find("model 2, log row 3"),
            std::string::npos);
  const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn, {.check_bytes = 0});
  EXPECT_NO_THROW(digests_of(*storage));  // from the snapshots, which do not need it
  const std::vector<Damage> damage = storage->log().verify_all();
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].first, 3U);
}

}  // namespace
}  // namespace mcnb::migration_test
