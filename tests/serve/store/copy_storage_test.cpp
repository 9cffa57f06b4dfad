// Services that move between stores.

#include "mcnb/serve/store/copy_storage.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/postgres/schema.h"
#include "tests/serve/store/memory_storage.h"
#include "tests/storage/postgres_server.h"
#include "tests/temporary_folder.h"

namespace mcnb::copy_storage_test {
namespace {

std::string new_url() {
  const std::string url = cases::PostgresServer::shared().new_database();
  EXPECT_EQ(migrate_postgres(url), Migrated::kMade);
  EXPECT_EQ(migrate_postgres(url), Migrated::kNothing);
  return url;
}

// Two models with gaps in their logs, ids, an erasure and snapshots; the model with the highest id
// is gone.
void fill(Storage& storage) {
  LogStore& log = storage.log();
  Batch batch;
  for (const std::uint32_t id : {1U, 3U, 4U}) {
    batch.models.emplace_back(
        StoredModel{.id = id, .name = "m" + std::to_string(id), .options = {{"dimension", "4"}}});
  }
  for (std::uint64_t position = 1; position <= 3000; ++position) {
    const std::uint64_t user = position % 7 == 0 ? ~std::uint64_t{0} : position % 7;
    batch.rows.push_back({3, position, EventKind::kArrival, static_cast<std::int64_t>(position),
                          user, std::string(position % 50, static_cast<char>(position))});
    batch.ids.push_back({3, position * 0x9e3779b97f4a7c15, position, 5, user});
  }
  batch.rows.push_back({1, 1, EventKind::kArrival, 1, 0, ""});
  log.commit(batch);
  log.erase_until(3, 100);
  Batch last;
  last.models.emplace_back(std::uint32_t{4});
  last.erasures = {{3, 5, 2000}};
  log.commit(last);
  log.acknowledge();
  storage.snapshots().write(3, 1500, std::string(2'500'000, 's'));
  storage.snapshots().write(3, 2500, "later");
}

// What a store has, for comparisons.
std::vector<std::string> contents(Storage& storage) {
  std::vector<std::string> all;
  for (const StoredModel& model : storage.log().models()) {
    all.push_back(fmt::format("model {} {} {} {} {}", model.id, model.name, model.complete,
                              model.last_position, model.options.at("dimension")));
    storage.log().replay(model.id, 0, [&](const LogRow& row) {
      all.push_back(fmt::format("row {} {} {} {} {} {}", row.model, row.position,
                                static_cast<int>(row.kind), row.time, row.user, row.body));
    });
    for (const std::uint64_t position : storage.snapshots().positions(model.id)) {
      const SnapshotSource source = storage.snapshots().open(model.id, position);
      all.push_back(std::to_string(position) +
                    std::string(std::istreambuf_iterator<char>(*source.bytes), {}));
    }
  }
  storage.log().visit_ids([&](const EventId& id) {
    all.push_back(
        fmt::format("id {} {} {} {} {}", id.model, id.key, id.position, id.time, id.user));
  });
  for (const Erasure& erasure : storage.log().erasures()) {
    all.push_back(fmt::format("erasure {} {} {}", erasure.model, erasure.user, erasure.until));
  }
  all.push_back(fmt::format("{} {}", storage.log().id(), storage.log().highest_model_id()));
  std::ranges::sort(all);
  return all;
}

TEST(CopyPostgres, AServiceMovesThereAndBack) {
  const TemporaryFolder folder;
  const std::string url = new_url();
  const auto first = open_data_folder(folder / "first", StorageAccess::kOwn);
  fill(*first);
  const std::vector<std::string> wanted = contents(*first);
  {
    const auto there = open_postgres(url, StorageAccess::kOwn);
    const CopyReport report = copy_storage(*first, *there);
    EXPECT_EQ(report.models, 2U);
    EXPECT_EQ(report.rows, 2901U);
    EXPECT_EQ(report.ids, 3000U);
    EXPECT_EQ(report.snapshots, 2U);
    EXPECT_EQ(contents(*there), wanted);
    EXPECT_GT(there->log().new_model_id(), 4U);
    EXPECT_TRUE(there->log().verify_all().empty());
    EXPECT_THROW(copy_storage(*first, *there), Error);  // it is not empty any more
  }
  {
    const auto look = open_postgres(url, StorageAccess::kLook);
    const auto back = open_data_folder(folder / "back", StorageAccess::kOwn);
    copy_storage(*look, *back);
  }
  EXPECT_EQ(contents(*open_data_folder(folder / "back", StorageAccess::kOwn)), wanted);
}

TEST(CopyPostgres, DamageIsNamed) {
  const std::string url = new_url();
  const auto storage = open_postgres(url, StorageAccess::kOwn);
  fill(*storage);
  PostgresConnection connection(url);
  const auto only_damage = [&] {
    const std::vector<Damage> found = storage->log().verify_all();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? std::string() : text_of(found.front());
  };
  // A changed row, a lost one, and a changed id.
  const auto change = [&](const std::string& sql, const std::string& undo,
                          const std::string& text) {
    connection.run(sql);
    EXPECT_NE(only_damage().find(text), std::string::npos) << only_damage();
    connection.run(undo);
    EXPECT_TRUE(storage->log().verify_all().empty());
  };
  change("UPDATE mcnb.log SET time = time + 1 WHERE position = 2000",
         "UPDATE mcnb.log SET time = time - 1 WHERE position = 2000", "log row 2000");
  change("UPDATE mcnb.ranges SET row_count = row_count + 1 WHERE number = 1",
         "UPDATE mcnb.ranges SET row_count = row_count - 1 WHERE number = 1",
         "there are 1024 rows where 1025 were written");
  change("UPDATE mcnb.event_ids SET time = 6 WHERE position = 77",
         "UPDATE mcnb.event_ids SET time = 5 WHERE position = 77", "log row 77");
  connection.run("UPDATE mcnb.log SET body = 'x' WHERE position = 2900");
  EXPECT_THROW(storage->log().replay(3, 2500, [](const LogRow&) {}), Error);
  EXPECT_THROW(storage->log().read(3, 2900), Error);
  EXPECT_TRUE(storage->log().read(3, 2901).has_value());
}

TEST(CopyPostgres, ADatabaseWithoutTablesOrOfAnotherLayoutIsRefused) {
  const std::string url = cases::PostgresServer::shared().new_database();
  const auto refusal = [&] {
    try {
      open_postgres(url, StorageAccess::kOwn);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(refusal().find("--migrate"), std::string::npos);
  migrate_postgres(url);
  EXPECT_EQ(refusal(), "");
  PostgresConnection(url).run("UPDATE mcnb.service SET layout = 99");
  EXPECT_NE(refusal().find("layout 99"), std::string::npos);
}

TEST(CopyPostgres, WeakSettingsAreNamed) {
  PostgresConnection connection(cases::PostgresServer::shared().new_database());
  EXPECT_TRUE(weak_settings(connection).empty());
  cases::PostgresServer weak({"fsync=off", "full_page_writes=off", "synchronous_commit=off"});
  PostgresConnection other(weak.url("postgres"));
  EXPECT_EQ(weak_settings(other).size(), 3U);
}

}  // namespace
}  // namespace mcnb::copy_storage_test
