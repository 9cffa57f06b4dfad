#include "mcnb/storage/sqlite.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mcnb::sqlite_test
