// The contract of storage.h, tested with every implementation.

#include "mcnb/serve/store/storage.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/postgres/schema.h"
#include "tests/serve/store/memory_storage.h"
#include "tests/storage/postgres_server.h"
#include "tests/temporary_folder.h"

namespace mcnb::storage_test {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::uint64_t>;

// A data store that can be opened repeatedly.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual std::unique_ptr<Storage> open() = 0;
  virtual std::unique_ptr<Storage> open_backup(const std::string& name) = 0;
  virtual void take_away_lease() = 0;
};

class FolderDisk : public Disk {
 public:
  std::unique_ptr<Storage> open() override {
    return open_data_folder(folder_.path(), StorageAccess::kOwn);
  }
  std::unique_ptr<Storage> open_backup(const std::string& name) override {
    return open_data_folder(folder_ / "backups" / name, StorageAccess::kOwn);
  }
  void take_away_lease() override { fs::remove(folder_ / "lock"); }

 private:
  TemporaryFolder folder_;
};

class InMemoryDisk : public Disk {
 public:
  std::unique_ptr<Storage> open() override { return disk_.open(); }
  std::unique_ptr<Storage> open_backup(const std::string& name) override {
    return disk_.open("data/backups/" + name);
  }
  void take_away_lease() override { disk_.take_away_lease(); }

 private:
  cases::MemoryDisk disk_;
};

class PostgresDisk : public Disk {
 public:
  PostgresDisk() { migrate_postgres(url_); }
  std::unique_ptr<Storage> open() override {
    return open_postgres(url_, StorageAccess::kOwn, {.backups = folder_ / "backups"});
  }
  std::unique_ptr<Storage> open_backup(const std::string& name) override {
    return open_data_folder(folder_ / "backups" / name, StorageAccess::kOwn);
  }
  void take_away_lease() override {
    PostgresConnection(url_).run("UPDATE mcnb.leases SET epoch = epoch + 1, node = 'other'");
  }

 private:
  TemporaryFolder folder_;
  std::string url_ = cases::PostgresServer::shared().new_database();
};

template <class Kind>
class StorageContract : public testing::Test {
 protected:
  Kind disk;
};
using Kinds = testing::Types<FolderDisk, InMemoryDisk, PostgresDisk>;
struct KindNames {
  template <class Kind>
  static std::string GetName(int) {
    return std::is_same_v<Kind, PostgresDisk>   ? "Postgres"
           : std::is_same_v<Kind, InMemoryDisk> ? "Memory"
                                                : "Folder";
  }
};
TYPED_TEST_SUITE(StorageContract, Kinds, KindNames);

LogRow row_of(std::uint32_t model, std::uint64_t position, std::uint64_t user = 0,
              std::int64_t time = 0) {
  return {model, position, EventKind::kArrival, time, user, "row " + std::to_string(position)};
}

Batch rows_of(std::uint32_t model, std::uint64_t from, std::uint64_t to) {
  Batch batch;
  for (std::uint64_t position = from; position <= to; ++position) {
    // Users 1, 2 and 3 take turns; every row is a second younger.
    batch.rows.push_back(
        row_of(model, position, position % 3 + 1, static_cast<std::int64_t>(position) * 1000));
  }
  return batch;
}

Batch model_of(std::uint32_t id, const std::string& name) {
  Batch batch;
  batch.models.emplace_back(StoredModel{.id = id, .name = name, .options = {{"dimension", "4"}}});
  return batch;
}

Rows rows_in(Storage& storage, std::uint32_t model, std::uint64_t after = 0) {
  Rows positions;
  storage.log().replay(model, after, [&](const LogRow& row) {
    EXPECT_EQ(row.model, model);
    EXPECT_EQ(row.body, "row " + std::to_string(row.position));
    positions.push_back(row.position);
  });
  return positions;
}

std::string bytes_in(SnapshotSource source) {
  std::ostringstream bytes;
  bytes << source.bytes->rdbuf();
  return bytes.str();
}

TYPED_TEST(StorageContract, WhatWasCommittedIsThereAfterARestart) {
  std::uint64_t id = 0;
  {
    const auto storage = this->disk.open();
    id = storage->log().id();
    Batch batch = model_of(storage->log().new_model_id(), "m");
    batch.rows = {row_of(1, 1, 7, 1234), row_of(1, 2)};
    batch.erasures = {{1, 7, 2}};
    storage->log().commit(batch);
  }
  const auto storage = this->disk.open();
  EXPECT_EQ(storage->log().id(), id);
  const std::vector<StoredModel> models = storage->log().models();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].id, 1U);
  EXPECT_EQ(models[0].name, "m");
  EXPECT_EQ(models[0].options, (OptionValues{{"dimension", "4"}}));
  EXPECT_TRUE(models[0].complete);
  EXPECT_EQ(models[0].last_position, 2U);
  EXPECT_EQ(rows_in(*storage, 1), (Rows{1, 2}));
  EXPECT_EQ(rows_in(*storage, 1, 1), (Rows{2}));
  const std::optional<LogRow> row = storage->log().read(1, 1);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->user, 7U);
  EXPECT_EQ(row->time, 1234);
  EXPECT_EQ(row->kind, EventKind::kArrival);
  EXPECT_FALSE(storage->log().read(1, 3).has_value());
  ASSERT_EQ(storage->log().erasures().size(), 1U);
  EXPECT_EQ(storage->log().erasures()[0].until, 2U);
}

TYPED_TEST(StorageContract, PositionsCountPerModel) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  log.commit(model_of(1, "a"));
  log.commit(model_of(2, "b"));
  log.commit(rows_of(1, 1, 5));
  log.commit(rows_of(2, 1, 3));
  log.commit(rows_of(1, 6, 7));
  EXPECT_EQ(log.last_position(1), 7U);
  EXPECT_EQ(log.last_position(2), 3U);
  EXPECT_EQ(log.last_position(3), 0U);
  EXPECT_EQ(rows_in(*storage, 2), (Rows{1, 2, 3}));
  log.erase_until(1, 4);
  EXPECT_EQ(rows_in(*storage, 1), (Rows{5, 6, 7}));
  EXPECT_EQ(rows_in(*storage, 2), (Rows{1, 2, 3}));
  EXPECT_FALSE(log.models()[0].complete);
  EXPECT_TRUE(log.models()[1].complete);
}

TYPED_TEST(StorageContract, ABatchIsStoredWholeOrNotAtAll) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  log.commit(model_of(1, "m"));
  log.commit(rows_of(1, 1, 2));
  // Commit at a position that is taken, after changes that would succeed.
  Batch batch = model_of(2, "other");
  batch.rows = {row_of(1, 3), row_of(2, 1), row_of(1, 2)};
  batch.erasures = {{1, 9, 3}};
  EXPECT_THROW(log.commit(batch), Error);
  // Commit with a name that is taken.
  Batch namesake = model_of(3, "m");
  namesake.rows = {row_of(1, 3)};
  EXPECT_THROW(log.commit(namesake), Error);
  EXPECT_EQ(log.models().size(), 1U);
  EXPECT_EQ(rows_in(*storage, 1), (Rows{1, 2}));
  EXPECT_TRUE(rows_in(*storage, 2).empty());
  EXPECT_TRUE(log.erasures().empty());
  log.commit(rows_of(1, 3, 3));
  EXPECT_EQ(rows_in(*storage, 1), (Rows{1, 2, 3}));
}

TYPED_TEST(StorageContract, AModelCanBeRemovedAndItsNameUsedAgainInOneBatch) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  log.commit(model_of(1, "m"));
  log.commit(rows_of(1, 1, 2));
  Batch batch;
  batch.models.emplace_back(std::uint32_t{1});
  batch.models.emplace_back(StoredModel{.id = 2, .name = "m"});
  log.commit(batch);
  ASSERT_EQ(log.models().size(), 1U);
  EXPECT_EQ(log.models()[0].id, 2U);
  EXPECT_EQ(log.highest_model_id(), 2U);
  EXPECT_EQ(log.models_with_rows(), (std::vector<std::uint32_t>{1}));
}

TYPED_TEST(StorageContract, IdsOfModelsAreNeverGivenTwice) {
  std::uint32_t second = 0;
  {
    const auto storage = this->disk.open();
    const std::uint32_t first = storage->log().new_model_id();
    second = storage->log().new_model_id();
    EXPECT_GT(second, first);
    storage->log().commit(model_of(second, "m"));
    Batch removal;
    removal.models.emplace_back(second);
    storage->log().commit(removal);
  }
  EXPECT_GT(this->disk.open()->log().new_model_id(), second);
}

TYPED_TEST(StorageContract, PositionsAreFoundByAgeAndByShare) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  log.commit(model_of(1, "m"));
  EXPECT_EQ(log.position_before(1, 1'000'000), 0U);
  EXPECT_EQ(log.position_at_share(1, 0.5), 0U);
  log.commit(rows_of(1, 1, 30));
  log.commit(rows_of(1, 41, 70));  // a gap
  for (std::int64_t time = 500; time <= 72'500; time += 1000) {
    // An oracle: the last row that is older.
    std::uint64_t expected = 0;
    for (const std::uint64_t position : rows_in(*storage, 1)) {
      expected = static_cast<std::int64_t>(position) * 1000 < time ? position : expected;
    }
    EXPECT_EQ(log.position_before(1, time), expected) << time;
  }
  EXPECT_EQ(log.position_at_share(1, 1.0), 70U);
  EXPECT_LE(log.position_at_share(1, 0.001), 1U);
  EXPECT_NEAR(static_cast<double>(log.position_at_share(1, 0.5)), 35.0, 6.0);
}

TYPED_TEST(StorageContract, PositionsAreNotUsedAgainAfterAllRowsWereErased) {
  {
    const auto storage = this->disk.open();
    storage->log().commit(model_of(1, "m"));
    storage->log().commit(rows_of(1, 1, 500));
    storage->log().erase_until(1, 500);
    EXPECT_TRUE(rows_in(*storage, 1).empty());
    EXPECT_EQ(storage->log().last_position(1), 500U);
  }
  const auto storage = this->disk.open();
  EXPECT_EQ(storage->log().models()[0].last_position, 500U);
  EXPECT_FALSE(storage->log().models()[0].complete);
}

TYPED_TEST(StorageContract, AUserIsErasedOnceEverySnapshotKnowsIt) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  Batch batch = model_of(1, "m");
  batch.rows = rows_of(1, 1, 9).rows;
  batch.erasures = {{1, 2, 8}};
  log.commit(batch);
  EXPECT_THROW(storage->erase_user({1, 2, 8}), Error);  // no snapshot
  storage->snapshots().write(1, 7, "knows the user");
  storage->snapshots().write(1, 9, "does not");
  EXPECT_THROW(storage->erase_user({1, 2, 8}), Error);  // a snapshot knows the user
  EXPECT_EQ(log.erasures().size(), 1U);
  storage->snapshots().remove_before(1, 9);
  storage->erase_user({1, 2, 8});
  EXPECT_EQ(rows_in(*storage, 1), (Rows{2, 3, 5, 6, 8, 9}));  // user 2 has 1, 4 and 7
  EXPECT_TRUE(log.erasures().empty());
  EXPECT_FALSE(log.models()[0].complete);
}

TYPED_TEST(StorageContract, IdsAreFoundUntilTheyAreOldOrTheirUserIsErased) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  Batch batch = model_of(1, "m");
  batch.rows = rows_of(1, 1, 6).rows;
  for (std::uint64_t i = 1; i <= 6; ++i) {
    batch.ids.push_back({1, i << 61 | i, i, static_cast<std::int64_t>(i) * 1000, i % 3 + 1});
  }
  batch.ids.push_back({2, batch.ids[0].key, 9, 9000, 1});  // of another model
  log.commit(batch);
  const auto position_of = [&](std::uint64_t i, std::uint32_t model = 1) {
    const std::optional<EventId> id = log.find_id(model, i << 61 | i);
    return id ? id->position : 0;
  };
  for (std::uint64_t i = 1; i <= 6; ++i) {
    EXPECT_EQ(position_of(i), i);
  }
  EXPECT_EQ(position_of(7), 0U);
  EXPECT_EQ(position_of(1, 2), 9U);
  // The later use of an id takes the place of the earlier one.
  log.commit({.ids = {{1, std::uint64_t{1} << 61 | 1, 7, 7000, 3}}});
  EXPECT_EQ(position_of(1), 7U);
  log.expire_ids(3000);
  EXPECT_EQ(position_of(2), 0U);
  EXPECT_EQ(position_of(3), 3U);
  log.erase_until(1, 3);
  EXPECT_EQ(position_of(3), 3U);  // ids outlive their rows
  log.erase_user({1, 1, 6});      // events 3 and 6
  EXPECT_EQ(position_of(3), 0U);
  EXPECT_EQ(position_of(6), 0U);
  EXPECT_EQ(position_of(4), 4U);
  EXPECT_EQ(position_of(1), 7U);
  log.erase_rows(1);
  EXPECT_EQ(position_of(4), 0U);
  EXPECT_EQ(position_of(1, 2), 9U);
  EXPECT_TRUE(log.verify_all().empty());
}

TYPED_TEST(StorageContract, WhatIsLeftOfARemovedModelIsFoundAndErased) {
  const auto storage = this->disk.open();
  storage->log().commit(model_of(1, "gone"));
  storage->log().commit(model_of(2, "kept"));
  storage->log().commit(rows_of(1, 1, 3));
  storage->snapshots().write(1, 2, "one");
  storage->snapshots().write(2, 2, "two");
  storage->snapshots().write(77, 2, "never a model of this log");
  EXPECT_TRUE(storage->leftover_models().empty());
  Batch removal;
  removal.models.emplace_back(std::uint32_t{1});
  storage->log().commit(removal);
  EXPECT_EQ(storage->leftover_models(), (std::vector<std::uint32_t>{1}));
  storage->erase_model(1);
  EXPECT_TRUE(storage->leftover_models().empty());
  EXPECT_TRUE(rows_in(*storage, 1).empty());
  EXPECT_EQ(storage->snapshots().models(), (std::vector<std::uint32_t>{2, 77}));
}

// Snapshots can come from a process that ends early.
TYPED_TEST(StorageContract, ASnapshotWhoseBytesFailLeavesThingsAsTheyWere) {
  const auto storage = this->disk.open();
  SnapshotStore& snapshots = storage->snapshots();
  snapshots.write(1, 4, "state 4");
  snapshots.write(1, 5, "state 5");
  for (const std::uint64_t position : {5U, 6U}) {
    int calls = 0;
    const NextBytes failing = [&]() -> std::string_view {
      if (++calls == 3) {
        throw Error(ErrorKind::kSystem, "no more");
      }
      return "a piece";
    };
    EXPECT_THROW(snapshots.write(1, position, failing), Error);
    EXPECT_EQ(snapshots.positions(1), (Rows{5, 4}));
    EXPECT_EQ(bytes_in(snapshots.open(1, 5)), "state 5");
  }
  const std::vector<std::string> pieces{"state", " 6"};
  std::size_t next = 0;
  snapshots.write(1, 6, [&] { return next < 2 ? std::string_view(pieces[next++]) : ""; });
  EXPECT_EQ(snapshots.positions(1), (Rows{6, 5}));
  EXPECT_EQ(bytes_in(snapshots.open(1, 6)), "state 6");
}

TYPED_TEST(StorageContract, TheTwoLatestSnapshotsAreKept) {
  {
    const auto storage = this->disk.open();
    for (const std::uint64_t position : {3U, 20U, 11U}) {
      storage->snapshots().write(1, position, "state " + std::to_string(position));
    }
    storage->snapshots().write(2, 5, "another model");
  }
  const auto storage = this->disk.open();
  SnapshotStore& snapshots = storage->snapshots();
  EXPECT_EQ(snapshots.positions(1), (Rows{20, 11}));
  EXPECT_EQ(bytes_in(snapshots.open(1, 11)), "state 11");
  EXPECT_THROW(snapshots.open(1, 3), Error);
  // A snapshot that was set aside no longer counts as one of the two.
  snapshots.set_aside(1, 20);
  EXPECT_EQ(snapshots.positions(1), (Rows{11}));
  snapshots.write(1, 30, "state 30");
  EXPECT_EQ(snapshots.positions(1), (Rows{30, 11}));
  snapshots.remove_unfinished();
  snapshots.remove_before(1, 30);
  EXPECT_EQ(snapshots.positions(1), (Rows{30}));
  EXPECT_EQ(snapshots.positions(2), (Rows{5}));
}

TYPED_TEST(StorageContract, ABackupHasWhatTheStorageHad) {
  const auto storage = this->disk.open();
  storage->log().commit(model_of(1, "m"));
  storage->log().commit(rows_of(1, 1, 5));
  storage->snapshots().write(1, 4, "state");
  EXPECT_FALSE(storage->has_backup("monday"));
  EXPECT_TRUE(storage->back_up("monday"));
  EXPECT_TRUE(storage->has_backup("monday"));
  storage->log().commit(rows_of(1, 6, 8));
  EXPECT_FALSE(storage->back_up("monday"));  // the name is taken
  const auto backup = this->disk.open_backup("monday");
  EXPECT_EQ(backup->log().id(), storage->log().id());
  EXPECT_EQ(rows_in(*backup, 1), (Rows{1, 2, 3, 4, 5}));
  EXPECT_EQ(bytes_in(backup->snapshots().open(1, 4)), "state");
  backup->log().commit(rows_of(1, 6, 6));
  EXPECT_EQ(rows_in(*storage, 1).size(), 8U);
}

TYPED_TEST(StorageContract, OneOwnerAtATime) {
  auto storage = this->disk.open();
  EXPECT_TRUE(storage->lease().held());
  EXPECT_THROW(this->disk.open(), Error);
  storage.reset();
  EXPECT_NO_THROW(this->disk.open());
}

TYPED_TEST(StorageContract, WhoLostTheLeaseCommitsNothing) {
  const auto storage = this->disk.open();
  storage->log().commit(model_of(1, "m"));
  this->disk.take_away_lease();
  while (storage->lease().held()) {  // it is noticed soon
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THROW(storage->log().commit(rows_of(1, 1, 1)), Error);
  EXPECT_THROW(storage->log().probe(), Error);
  EXPECT_TRUE(rows_in(*storage, 1).empty());
}

TYPED_TEST(StorageContract, CommitsReadsAndErasuresGoOnTogether) {
  const auto storage = this->disk.open();
  LogStore& log = storage->log();
  log.commit(model_of(1, "a"));
  log.commit(model_of(2, "b"));
  constexpr std::uint64_t kRows = 60;
  const auto write = [&](std::uint32_t model) {
    for (std::uint64_t position = 1; position <= kRows; ++position) {
      log.commit(rows_of(model, position, position));
    }
  };
  std::thread first([&] { write(1); });
  std::thread second([&] { write(2); });
  std::thread house([&] {
    for (int i = 0; i < 20; ++i) {
      log.erase_until(1, log.last_position(1) / 2);
      log.maintain();
      static_cast<void>(log.used_bytes());
    }
  });
  std::uint64_t seen = 0;
  while (seen < kRows) {
    const std::uint64_t last = log.last_position(2);
    EXPECT_GE(last, seen);
    EXPECT_TRUE(last == 0 || log.read(2, last).has_value());
    seen = last;
  }
  first.join();
  second.join();
  house.join();
  EXPECT_EQ(rows_in(*storage, 2).size(), kRows);
  EXPECT_EQ(log.last_position(1), kRows);
  EXPECT_NO_THROW(log.probe());
  EXPECT_GT(log.used_bytes(), 0U);
}

}  // namespace
}  // namespace mcnb::storage_test
