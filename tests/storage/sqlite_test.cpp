#include "mcnb/storage/sqlite.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "mcnb/base/random.h"
#include "tests/temporary_folder.h"

namespace mcnb::sqlite_test {
namespace {

TEST(Sqlite, ThePagesOfTheWalAreCountedAndACheckpointEmptiesIt) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "test.db";
  Database database(path, Database::Access::kCreate);
  database.use_wal();
  database.run("CREATE TABLE numbers(value INTEGER)");
  const int before = database.wal_pages();
  EXPECT_GT(before, 0);
  database.run("INSERT INTO numbers VALUES(1)");
  EXPECT_GT(database.wal_pages(), before);
  EXPECT_TRUE(database.checkpoint(true));
  EXPECT_EQ(std::filesystem::file_size(path.string() + "-wal"), 0U);
  EXPECT_EQ(database.number("SELECT sum(value) FROM numbers"), 1);
}

TEST(Sqlite, AReaderInTheWayKeepsTheWalFromBeingEmptied) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "test.db";
  Database writer(path, Database::Access::kCreate);
  writer.use_wal();
  writer.run("CREATE TABLE numbers(value INTEGER); INSERT INTO numbers VALUES(1), (2)");
  Database reader(path, Database::Access::kReadOnly);
  Statement open(reader, "SELECT value FROM numbers");
  ASSERT_TRUE(open.next());
  writer.run("PRAGMA busy_timeout = 10; INSERT INTO numbers VALUES(3)");
  EXPECT_FALSE(writer.checkpoint(true));
  open.reset();
  EXPECT_TRUE(writer.checkpoint(true));
}

// Inserts and deletes rows of eight users, then all rows of user 3.
void make_and_erase_rows(Database& database, std::uint64_t seed) {
  database.run(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;"
      "CREATE TABLE rows(id INTEGER PRIMARY KEY, user INTEGER, body TEXT)");
  Rng rng(seed, Stream::kTest);
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t user = rng.below(8);
    const std::string body = "user-" + std::to_string(user) + std::string(rng.below(700), '.');
    database.run(fmt::format("INSERT INTO rows(user, body) VALUES({}, '{}')", user, body).c_str());
    if (rng.chance(0.05)) {
      const std::uint64_t other = rng.below(3);
      database.run(
          fmt::format("DELETE FROM rows WHERE user = {} AND id > {}", other, rng.below(400))
              .c_str());
    }
    if (rng.chance(0.5)) {
      database.run(fmt::format("DELETE FROM rows WHERE id = {}", rng.below(400)).c_str());
    }
  }
  database.run("DELETE FROM rows WHERE user = 3");
  ASSERT_TRUE(database.checkpoint(true));
}

// What SQLite's secure_delete leaves, and what removes it.
TEST(Sqlite, CopiesOfMovedRowsAreClearedFromThePages) {
  int left = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "some.db";
    Database database(path, Database::Access::kCreate);
    make_and_erase_rows(database, seed);
    const auto has_user = [&] { return file_contents(path).find("user-3") != std::string::npos; };
    const char* const contents = "SELECT coalesce(sum(id * length(body)), 0) FROM rows";
    const std::int64_t before = database.number(contents);
    left += has_user() ? 1 : 0;
    database.clear_unused(1, database.number("PRAGMA page_count"));
    database.drop_pages();
    EXPECT_FALSE(has_user()) << seed;
    EXPECT_EQ(database.number(contents), before);
    EXPECT_EQ(database.number("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    // What is written again comes from cleared pages.
    database.run("UPDATE rows SET body = body || '!'");
    EXPECT_EQ(file_contents(folder / "some.db-wal").find("user-3"), std::string::npos);
  }
  EXPECT_GT(left, 0) << "SQLite left nothing, so the test shows nothing";
}

}  // namespace
}  // namespace mcnb::sqlite_test
