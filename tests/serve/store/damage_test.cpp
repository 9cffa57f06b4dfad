// Bytes of the database are flipped. Every flip is refused at the start, found by the verification
// of the whole log, in the background and by hand, or harmless: then everything reads as before.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/serve/model/event_keys.h"
#include "mcnb/serve/server.h"
#include "mcnb/serve/store/log_ranges.h"
#include "tests/long_tests.h"
#include "tests/serve/running_engine.h"

namespace mcnb::damage_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

const StoreOptions kUnchecked{.check_bytes = 0};

// How many bytes are flipped.
std::size_t flips() { return repeats("MCNB_FLIPS", 40); }

// A database without a WAL, with two models, erased rows and ids.
void fill_database(const fs::path& folder) {
  {
    RunningEngine running(folder);
    running.create("m", small_model());
    running.create("other", small_model());
    running.play_together(0, 150);
    running.snapshot();
    running.play_together(150, 200);
    running.rank(request_of(1000, "ann"), "other");
    running.forget("user-3");
  }
  log_beside(folder).erase_until(1, 20);
  // The probe leaves many free pages. The connection that closes last writes the WAL back.
  log_beside(folder).probe();
  run_sql(folder, "UPDATE probe SET bytes = x''");
  ASSERT_FALSE(fs::exists((folder / SqliteLogStore::kFileName).string() + "-wal"));
}

// Everything that a log says to its callers.
struct Content {
  std::map<std::string, std::string> all;

  explicit Content(LogStore& log) {
    all["id"] = std::to_string(log.id());
    all["highest"] = std::to_string(log.highest_model_id());
    for (const StoredModel& model : log.models()) {
      std::string& text = all["model " + std::to_string(model.id)];
      text = model.name + " " + std::to_string(model.last_position) + (model.complete ? "c" : "i");
      for (const auto& [name, value] : model.options) {
        text += name + value;
      }
      log.replay(model.id, 0, [&](const LogRow& row) {
        all["row " + std::to_string(model.id) + " " + std::to_string(row.position)] =
            std::to_string(row.time) + " " + std::to_string(row.user) + row.body;
      });
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::string event = "event-" + std::to_string(i);
        if (const auto id = log.find_id(model.id, event_id_key(event, 1))) {
          all["id " + std::to_string(model.id) + event] = std::to_string(id->position);
        }
      }
    }
    for (const std::uint32_t model : log.models_with_rows()) {
      all["rows " + std::to_string(model)] = "yes";
    }
    all["erasures"] = std::to_string(log.erasures().size());
  }
};

void restore(const fs::path& folder, const std::map<std::string, std::string>& files) {
  fs::remove_all(folder);
  fs::create_directories(folder / "snapshots");
  for (const auto& [name, bytes] : files) {
    put_file(folder / name, bytes);
  }
}

// Makes the models and asks for events: whatever is damaged, nobody gets status 500. Throws Error
// if the models cannot be made.
void serve_some(Storage& storage) {
  ThreadPool threads(1);
  ModelHost host(storage, threads);
  host.recover();
  for (std::uint64_t i = 0; i < 200; i += 3) {
    const RankRequest request = request_of(i, "user-" + std::to_string(i % 5));
    const auto answer = host.decide("m", {&request}, 1'000'000).front();
    EXPECT_NE(answer.error ? answer.error->status() : 200, 500) << answer.error->message;
    try {
      host.look_up("m", request.event_id);
    } catch (const RequestRefused& refused) {
      EXPECT_NE(refused.error().status(), 500) << refused.what();
    }
  }
}

enum class Finding { kRefused, kFound, kHarmless };

// Goes through a folder in which one byte was flipped.
Finding examine(const fs::path& folder, const Content& sound) {
  const fs::path database = folder / SqliteLogStore::kFileName;
  const std::string damaged = file_contents(database);
  bool refused = false;
  try {
    open_data_folder(folder, StorageAccess::kOwn);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("mcnb.db"), std::string::npos) << error.what();
    EXPECT_TRUE(file_contents(database) == damaged) << "what was refused was changed";
    refused = true;
  }
  // A large database is not verified whole at the start, but afterwards.
  bool found = false;
  try {
    const auto storage = open_data_folder(folder, StorageAccess::kOwn, kUnchecked);
    found = !storage->log().verify_all().empty();
    EXPECT_EQ(refused, found) << "the start and --verify differ";
    serve_some(*storage);
    if (!refused && !found) {
      EXPECT_TRUE(Content(storage->log()).all == sound.all) << "harmless?";
    }
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("mcnb.db"), std::string::npos) << error.what();
    return Finding::kRefused;
  }
  return refused ? Finding::kFound : Finding::kHarmless;
}

TEST(Damage, EveryFlippedByteIsRefusedOrFoundOrHarmless) {
  const TemporaryFolder origin;
  fill_database(origin.path());
  const auto files = all_files(origin.path());
  const std::string& sound = files.at(SqliteLogStore::kFileName);
  const Content content(open_data_folder(origin.path(), StorageAccess::kOwn)->log());
  ASSERT_GT(content.all.size(), 200U);
  // Free bytes are many: half of the flips are in the bytes that are not 0.
  std::vector<std::size_t> used;
  for (std::size_t at = 0; at < sound.size(); ++at) {
    if (sound[at] != 0) {
      used.push_back(at);
    }
  }
  Rng rng(test_seed(), Stream::kTest);
  const TemporaryFolder folder;
  std::map<Finding, std::size_t> findings;
  for (std::size_t i = 0; i < flips(); ++i) {
    restore(folder.path(), files);
    const std::size_t at = i % 2 == 0 ? used[rng.below(used.size())] : rng.below(sound.size());
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
    put_file(folder / SqliteLogStore::kFileName, bytes);
    SCOPED_TRACE("byte " + std::to_string(at) + " of page " + std::to_string(at / 8192 + 1));
    ++findings[examine(folder.path(), content)];
    if (testing::Test::HasFailure()) {
      break;
    }
  }
  RecordProperty("refused", static_cast<int>(findings[Finding::kRefused]));
  RecordProperty("found", static_cast<int>(findings[Finding::kFound]));
  RecordProperty("harmless", static_cast<int>(findings[Finding::kHarmless]));
  EXPECT_GT(findings[Finding::kRefused] + findings[Finding::kFound], flips() / 4);
}

TEST(Damage, ARowThatIsLostIsNoticedByTheDigestOfItsRange) {
  const TemporaryFolder folder;
  fill_database(folder.path());
  run_sql(folder.path(), "DELETE FROM log WHERE model = 1 AND position = 100");
  try {
    open_data_folder(folder.path(), StorageAccess::kOwn);
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model 1, log rows 1 to 1023"), std::string::npos)
        << error.what();
  }
}

// A row of an old range is damaged while nothing needs it.
TEST(Damage, IsNamedWhileTheServiceGoesOn) {
  const TemporaryFolder folder;
  fill_database(folder.path());
  run_sql(folder.path(),
          "UPDATE log SET body = x'00' WHERE model = 1 AND position BETWEEN 50 AND 52");
  {
    const Verification states = verify_data(folder.path().string(), 1);
    EXPECT_FALSE(states.agree);
    ASSERT_EQ(states.lines.size(), 1U);
    EXPECT_NE(states.lines[0].find("model 1, log rows 50 to 52"), std::string::npos)
        << states.lines[0];
  }
  EXPECT_THROW(RunningEngine(folder.path()), Error);
  EngineOptions options;
  options.store.check_bytes = 0;
  RunningEngine running(folder.path(), options);
  wait_until([&] { return running.metrics.verified_passes > 0; });
  const std::vector<Damage> damage = running.engine().damage();
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].model, 1U);
  EXPECT_EQ(damage[0].first, 50U);
  EXPECT_EQ(damage[0].last, 52U);
  EXPECT_EQ(running.metrics.damaged, 1U);
  EXPECT_TRUE(running.engine().ready());
  running.play(300, 303);
  // Not one event gives status 500.
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto task = running.rank(request_of(i, "user-" + std::to_string(i % 5)));
    if (task->error && i % 5 != 3) {
      EXPECT_EQ(task->error->status(), 410) << task->error->message;
    }
  }
}

TEST(Damage, DigestsSurviveErasureAndTrimming) {
  const TemporaryFolder folder;
  fill_database(folder.path());
  SqliteLogStore store = log_beside(folder.path());
  const std::uint64_t last = store.last_position(1);
  for (std::uint64_t until = 40; until <= last; until += 60) {
    store.erase_until(1, until);
    EXPECT_TRUE(store.verify_all().empty()) << until;
  }
  store.erase_user({1, event_id_key("user-2", ~std::uint64_t{1}), last});
  EXPECT_TRUE(store.verify_all().empty());
  store.erase_until(1, last);
  EXPECT_TRUE(store.verify_all().empty());
  EXPECT_EQ(ask_sql(folder.path(), "SELECT count(*) FROM ranges WHERE model = 1"), 0);
  store.commit({.models = {std::uint32_t{1}}});
  store.erase_rows(1);
  EXPECT_TRUE(store.verify_all().empty());
  EXPECT_EQ(ask_sql(folder.path(), "SELECT count(*) FROM event_ids WHERE model = 1"), 0);
}

TEST(Damage, IsLookedForAtTheWantedRate) {
  const TemporaryFolder folder;
  fill_database(folder.path());
  SqliteLogStore store(folder.path(), SqliteLogStore::Access::kReadWrite, nullptr, kUnchecked);
  // Parts of one byte: many steps, each of which verifies something else.
  std::size_t parts = 0;
  std::uint64_t bytes = 0;
  for (bool finished = false; !finished; ++parts) {
    const LogStore::Verified verified = store.verify_next(0);
    finished = verified.finished;
    bytes += verified.bytes;
    ASSERT_LT(parts, 1000U);
  }
  EXPECT_GT(parts, 2U);
  EXPECT_GT(bytes, 10'000U);
  EXPECT_TRUE(store.verify_next(~std::uint64_t{0}).finished);
}

TEST(Damage, IsNotLookedForAtARateOfZero) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.verify_bytes = 0.0;
  RunningEngine running(folder.path(), options);
  running.create("m", small_model());
  running.play(0, 3);
  EXPECT_EQ(running.metrics.verified_bytes, 0U);
}

}  // namespace
}  // namespace mcnb::damage_test
