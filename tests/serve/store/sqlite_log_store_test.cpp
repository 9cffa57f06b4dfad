#include "mcnb/serve/store/sqlite_log_store.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "tests/serve/running_engine.h"

namespace mcnb::sqlite_log_store_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

TEST(SqliteLogStore, WhoAnswersClientsWritesBeforeWhoKeepsHouse) {
  WriteGate gate;
  gate.enter(false);
  std::mutex mutex;
  std::vector<std::string> order;
  const auto pass = [&](bool urgent, const char* name) {
    gate.enter(urgent);
    {
      const std::lock_guard lock(mutex);
      order.emplace_back(name);
    }
    gate.leave();
  };
  std::thread house([&] { pass(false, "house"); });
  while (gate.waiting() < 1) std::this_thread::yield();
  std::thread writer([&] { pass(true, "writer"); });
  while (gate.waiting() < 2) std::this_thread::yield();
  gate.leave();
  house.join();
  writer.join();
  EXPECT_EQ(order, (std::vector<std::string>{"writer", "house"}));
}

TEST(SqliteLogStore, ErasingLetsTheWriterInBetween) {
  const TemporaryFolder folder;
  SqliteLogStore store = log_beside(folder.path());
  constexpr std::uint64_t kRows = 4'000;
  Batch first;
  for (std::uint64_t position = 1; position <= kRows; ++position) {
    first.rows.push_back({1, position, EventKind::kArrival, 0, 0, std::string(100, 'x')});
  }
  store.commit(first);
  std::atomic<bool> erased{false};
  std::thread eraser([&] {
    store.erase_until(1, kRows);
    erased = true;
  });
  std::uint64_t written = 0;
  while (!erased) {
    ++written;
    store.commit({.models = {}, .rows = {{1, kRows + written, EventKind::kArrival, 0, 0, ""}}});
  }
  eraser.join();
  // Pauses in the erasure let several commits through; without pauses there would be only one.
  EXPECT_GT(written, 3U);
  EXPECT_EQ(first_position(store, 1), kRows + 1);
  EXPECT_EQ(ask_sql(folder.path(), "SELECT count(*) FROM log"), static_cast<std::int64_t>(written));
}

TEST(SqliteLogStore, TheWalStaysBoundedEvenIfNobodyKeepsHouse) {
  const TemporaryFolder folder;
  SqliteLogStore store = log_beside(folder.path());
  for (std::uint64_t position = 1; position <= 100; ++position) {
    store.commit({.models = {},
                  .rows = {{1, position, EventKind::kArrival, 0, 0, std::string(1 << 20, 'x')}}});
  }
  EXPECT_LT(fs::file_size(folder / "mcnb.db-wal"), 80U << 20);
}

}  // namespace
}  // namespace mcnb::sqlite_log_store_test
