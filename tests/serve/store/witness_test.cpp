// The witness: a start never goes on silently with less than was acknowledged.

#include "mcnb/serve/store/witness.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/serve/server.h"
#include "tests/long_tests.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/store/memory_storage.h"

namespace mcnb::witness_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

const Acknowledged kState{.folder = 1, .copy = 2, .commit = 3, .positions = {{1, 10}, {7, 70}}};

TEST(Witness, SaysWhatWasWrittenLast) {
  const TemporaryFolder folder;
  EXPECT_FALSE(Witness::read(folder.path()).has_value());
  Witness::make(folder.path(), kState);
  EXPECT_EQ(Witness::read(folder.path()), kState);
  Acknowledged state = kState;
  for (int opened = 0; opened < 3; ++opened) {
    Witness witness(folder.path());
    for (int i = 0; i < 3; ++i) {
      ++state.commit;
      state.positions[1] += 2;
      witness.write(state);
      EXPECT_EQ(Witness::read(folder.path()), state);
    }
  }
}

// A write that was cut short leaves the slot before; damage of both is refused.
TEST(Witness, ASlotThatWasCutShortLeavesTheOneBefore) {
  const TemporaryFolder folder;
  Witness::make(folder.path(), kState);
  Acknowledged later = kState;
  later.commit = 4;
  Witness(folder.path()).write(later);
  const std::string both = file_contents(folder / Witness::kFileName);
  const std::size_t slot = both.size() / 2;  // the second one has the later state
  for (std::size_t at = slot; at < slot + 68; ++at) {
    std::string torn = both;
    torn[at] = static_cast<char>(torn[at] ^ 1);
    put_file(folder / Witness::kFileName, torn);
    EXPECT_EQ(Witness::read(folder.path()), kState) << at;
    // The next write replaces the damaged slot, not the sound one.
    Witness(folder.path()).write(later);
    EXPECT_TRUE(file_contents(folder / Witness::kFileName) == both);
  }
  put_file(folder / Witness::kFileName, std::string(both.size(), 'x'));
  EXPECT_THROW(Witness::read(folder.path()), Error);
  put_file(folder / Witness::kFileName, "");
  EXPECT_THROW(Witness::read(folder.path()), Error);
}

// A folder as a crash leaves it: with its WAL. Returns its files. `checkpoints`: parts of the WAL
// were written back to the database before, so that it has later pages than the WAL's beginning.
std::map<std::string, std::string> crashed_folder(const fs::path& folder,
                                                  bool checkpoints = false) {
  std::map<std::string, std::string> files;
  RunningEngine running(folder);
  running.create("m", small_model());
  running.play(0, 6);
  if (checkpoints) {
    // A reader of the past keeps the WAL from beginning anew.
    Database reader(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite);
    reader.run("BEGIN; SELECT count(*) FROM log");
    running.play(6, 9);
    Database(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite).checkpoint();
    running.play(9, 12);
    reader.run("COMMIT");
    Database(folder / SqliteLogStore::kFileName, Database::Access::kReadWrite).checkpoint();
  } else {
    running.play(6, 12);
  }
  files = all_files(folder);
  files.erase("mcnb.db-shm");
  files.erase("lock");
  return files;
}

void restore(const fs::path& folder, const std::map<std::string, std::string>& files) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [name, bytes] : files) {
    put_file(folder / name, bytes);
  }
}

// The message with which a start is refused; empty if it starts.
std::string refusal(const fs::path& folder, std::uint64_t accept_loss = 0) {
  try {
    open_data_folder(folder, StorageAccess::kOwn, {.accept_loss = accept_loss});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    return error.what();
  }
  return "";
}

// The number that a refusal names for --accept-loss.
std::uint64_t number_in(const std::string& message) {
  const std::string flag = "--accept-loss ";
  const std::size_t at = message.find(flag);
  EXPECT_NE(at, std::string::npos) << message;
  return at == std::string::npos ? 0
                                 : std::strtoull(message.c_str() + at + flag.size(), nullptr, 10);
}

// Cuts or damages the WAL at random places and starts.
void damage_wal(bool checkpoints) {
  const TemporaryFolder origin;
  const auto files = crashed_folder(origin.path(), checkpoints);
  const std::string& wal = files.at("mcnb.db-wal");
  ASSERT_GT(wal.size(), 100'000U);
  const TemporaryFolder folder;
  restore(folder.path(), files);
  std::uint64_t last = 0;
  {
    const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    last = storage->log().last_position(1);
  }
  ASSERT_GT(last, 24U);
  Rng rng(test_seed(), Stream::kTest);
  std::size_t refused = 0;
  const std::size_t places = repeats("MCNB_WAL_PLACES", 30);
  for (std::size_t i = 0; i < places; ++i) {
    auto damaged = files;
    std::string& bytes = damaged.at("mcnb.db-wal");
    const std::size_t at = i == 0 ? 0 : rng.below(wal.size());
    if (i % 3 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
    }
    restore(folder.path(), damaged);
    SCOPED_TRACE("at byte " + std::to_string(at));
    const std::string message = refusal(folder.path());
    if (message.empty()) {
      const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
      EXPECT_EQ(storage->log().last_position(1), last);
      EXPECT_TRUE(storage->log().verify_all().empty());
    } else {
      ++refused;
      EXPECT_TRUE(file_contents(folder / "mcnb.db-wal") == bytes) << "what was refused was changed";
      EXPECT_THROW(verify_data(folder.path().string(), 1), Error);
    }
  }
  EXPECT_GT(refused, places / 2);
}

TEST(Witness, AWalThatIsCutOrDamagedAnywhereIsNeverTakenSilently) { damage_wal(false); }

TEST(Witness, NorIsOneWhoseEndIsInTheDatabaseAlready) { damage_wal(true); }

TEST(Witness, ALossIsNamedAndCanBeAcceptedOnce) {
  const TemporaryFolder origin;
  auto files = crashed_folder(origin.path());
  std::uint64_t acknowledged = 0;
  const TemporaryFolder folder;
  {
    restore(folder.path(), files);
    acknowledged = open_data_folder(folder.path(), StorageAccess::kOwn)->log().last_position(1);
  }
  files.at("mcnb.db-wal").resize(files.at("mcnb.db-wal").size() * 2 / 3);
  restore(folder.path(), files);
  const std::string message = refusal(folder.path());
  const std::size_t rows = message.find("model 1: log rows ");
  ASSERT_NE(rows, std::string::npos) << message;
  const std::uint64_t first = std::strtoull(message.c_str() + rows + 18, nullptr, 10);
  EXPECT_NE(message.find(" to " + std::to_string(acknowledged) + " (" +
                         std::to_string(acknowledged - first + 1) + " events)"),
            std::string::npos)
      << message;
  const std::uint64_t number = number_in(message);
  EXPECT_FALSE(refusal(folder.path(), number + 1).empty());
  EXPECT_TRUE(refusal(folder.path(), number).empty());
  EXPECT_TRUE(refusal(folder.path()).empty());  // the witness was written anew
  {
    // Positions of lost events are not used again.
    RunningEngine running(folder.path());
    EXPECT_EQ(running.report().last_position, first - 1);
    running.play(100, 103);
    EXPECT_GT(running.report().last_position, acknowledged);
  }
  const Verification states = verify_data(folder.path().string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
}

// An old database lies beside later snapshots: the latest one has the effect of the lost rows.
TEST(Witness, AfterALossTheLatestSnapshotServes) {
  const TemporaryFolder folder;
  {
    RunningEngine running(folder.path());
    running.create("m", small_model());
    running.play_together(0, 20);
  }
  log_beside(folder.path()).probe();  // the connection that closes last writes the WAL back
  const std::string old = file_contents(folder / SqliteLogStore::kFileName);
  for (std::uint64_t i = 20; i < 60; i += 20) {
    RunningEngine running(folder.path());
    running.play_together(i, i + 20);
  }
  for (const char* ending : {"-wal", "-shm"}) {
    fs::remove((folder / SqliteLogStore::kFileName).string() + ending);
  }
  put_file(folder / SqliteLogStore::kFileName, old);
  ASSERT_EQ(snapshot_names(folder.path()).size(), 2U);
  const std::uint64_t number = number_in(refusal(folder.path()));
  const auto storage =
      open_data_folder(folder.path(), StorageAccess::kOwn, {.accept_loss = number});
  ThreadPool threads(1);
  ModelHost host(*storage, threads);
  host.recover();
  EXPECT_EQ(host.report("m").counts.decisions, 60U);
  EXPECT_FALSE(storage->log().models()[0].complete);
  EXPECT_EQ(storage->snapshots().positions(1).size(), 1U);
  const auto latest = host.digests();
  host.recover(true);
  EXPECT_EQ(host.digests(), latest);
}

TEST(Witness, AnotherDatabaseAndAnOldBackupAreToldApart) {
  const TemporaryFolder folder;
  fill(folder.path());
  {
    const auto storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    storage->back_up("monday");
  }
  const fs::path backup = folder / "backups" / "monday";
  EXPECT_TRUE(refusal(backup).empty());  // it has a witness of its own
  {
    RunningEngine running(folder.path());
    running.play(70, 75);
  }
  const std::string own = file_contents(folder / SqliteLogStore::kFileName);
  put_file(folder / SqliteLogStore::kFileName, file_contents(backup / SqliteLogStore::kFileName));
  const std::string message = refusal(folder.path());
  EXPECT_NE(message.find("is a backup in the place of"), std::string::npos) << message;
  EXPECT_NE(message.find("model 1: log rows"), std::string::npos) << message;
  const TemporaryFolder other;
  fill(other.path());
  put_file(folder / SqliteLogStore::kFileName, file_contents(other / SqliteLogStore::kFileName));
  EXPECT_NE(refusal(folder.path()).find("belongs to another database"), std::string::npos);
  put_file(folder / SqliteLogStore::kFileName, own);
  EXPECT_TRUE(refusal(folder.path()).empty());
}

TEST(Witness, AMissingOrDamagedFileIsRefused) {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::string sound = file_contents(folder / Witness::kFileName);
  put_file(folder / Witness::kFileName, std::string(100, 'x'));
  EXPECT_NE(refusal(folder.path()).find("it is damaged"), std::string::npos);
  fs::remove(folder / Witness::kFileName);
  const std::string message = refusal(folder.path());
  EXPECT_NE(message.find("is missing"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder / Witness::kFileName));
  EXPECT_TRUE(refusal(folder.path(), number_in(message)).empty());
  EXPECT_TRUE(refusal(folder.path()).empty());
  EXPECT_EQ(Witness::read(folder.path())->positions.at(1),
            open_data_folder(folder.path(), StorageAccess::kOwn)->log().last_position(1));
}

TEST(Witness, ADatabaseThatIsGoneIsNoNewFolder) {
  const TemporaryFolder folder;
  {
    RunningEngine running(folder.path());
    running.create("m", small_model());
    running.play(0, 3);
  }
  fs::remove_all(folder / "snapshots");  // which would notice it, too
  fs::remove(folder / SqliteLogStore::kFileName);
  for (const char* ending : {"-wal", "-shm"}) {
    fs::remove((folder / SqliteLogStore::kFileName).string() + ending);
  }
  EXPECT_NE(refusal(folder.path()).find("model 1: log rows 1 to"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / SqliteLogStore::kFileName));
}

TEST(Witness, OfAFolderInWhichNothingHappenedKeepsNobodyFromBeginningAnew) {
  const TemporaryFolder folder;
  EXPECT_TRUE(refusal(folder.path()).empty());
  fs::remove(folder / SqliteLogStore::kFileName);
  EXPECT_TRUE(refusal(folder.path()).empty());
  {
    RunningEngine running(folder.path());
    running.create("m", small_model());
    running.play(0, 3);
  }
  EXPECT_TRUE(refusal(folder.path()).empty());
}

// Whoever is told of an event can rely on the witness.
TEST(Witness, KnowsEveryEventThatWasAnswered) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_FALSE(running.rank(request_of(i, "ann"))->error.has_value());
    const std::optional<Acknowledged> told = Witness::read(folder.path());
    ASSERT_TRUE(told.has_value());
    EXPECT_GE(told->positions.at(1), i + 2);  // the user's arrival is the first event
  }
}

// Nothing is missing if the server commits while somebody looks.
TEST(Witness, IsReadBeforeTheDatabaseThatItTellsOf) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  std::atomic<bool> looked{false};
  std::thread client([&] {
    for (std::uint64_t i = 0; !looked; ++i) {
      running.rank(request_of(i, "ann"));
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_NO_THROW(SqliteLogStore(folder.path(), SqliteLogStore::Access::kReadOnly));
  }
  looked = true;
  client.join();
}

TEST(Witness, AnAnswerThatCannotBeWitnessedIsNotGiven) {
  MemoryDisk disk;
  RunningEngine running(disk.open());
  running.create("m", small_model());
  disk.fail_always(StorageCall::kAcknowledge);
  const auto lost = running.rank(request_of(1, "ann"));
  ASSERT_TRUE(lost->error.has_value());
  EXPECT_EQ(lost->error->status(), 503);
  disk.heal();
  wait_until([&] { return !running.rank(request_of(2, "ann"))->error.has_value(); });
  running.play(3, 5);
}

}  // namespace
}  // namespace mcnb::witness_test
