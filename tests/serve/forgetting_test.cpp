// No file mentions a forgotten user any more.

#include <gtest/gtest.h>

#include <algorithm>

#include "mcnb/base/piece_cutter.h"
#include "tests/serve/running_engine.h"

namespace mcnb::forgetting_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

// The bytes of an action's features, as they would stand in a file.
std::string bytes_of(const RankRequest& request, std::size_t action) {
  return {reinterpret_cast<const char*>(request.features.data() + 4 * action), 4 * sizeof(float)};
}

void expect_nothing_of(const std::string& user, const std::vector<std::uint64_t>& events,
                       const fs::path& folder) {
  for (const auto& [file, bytes] : all_files(folder)) {
    EXPECT_EQ(bytes.find(user), std::string::npos) << file;
    for (const std::uint64_t event : events) {
      const RankRequest request = request_of(event, user);
      EXPECT_EQ(bytes.find(request.event_id), std::string::npos) << file << " " << event;
      for (std::size_t action = 0; action < 3; ++action) {
        EXPECT_EQ(bytes.find(bytes_of(request, action)), std::string::npos) << file << " " << event;
      }
    }
  }
}

TEST(Forgetting, AForgottenUserIsNowhereOnDisk) {
  const TemporaryFolder folder;
  const std::string name = "somebody-who-leaves";
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  set_option(options, "options.history_limit", "3");  // so that some leave it before
  std::vector<std::uint64_t> events;
  {
    RunningEngine running(folder.path());
    running.create("m", options);
    running.play(0, 10);
    for (std::uint64_t i = 100; i < 112; ++i) {
      running.rank(request_of(i, name));
      if (i < 110) {
        running.reward("event-" + std::to_string(i), 1.0F);
      }
      events.push_back(i);
    }
    // Histories of other users hold shared events. The late reward also belongs to this user.
    running.clock.set(1'011'000);
    EXPECT_EQ(running.reward("event-110", 1.0F)->outcome, RewardOutcome::kLate);
    running.rank(request_of(112, name));  // waits
    events.push_back(112);
    running.snapshot();
    damage(snapshots_in(folder.path()).front(), 300);
    fs::rename(snapshots_in(folder.path()).front(),
               snapshots_in(folder.path()).front().string() + ".damaged");
    const std::string copy = file_contents(snapshots_in(folder.path()).front());
    put_file(folder / "snapshots" / "00000001-00000000000000000009.snapshot.part", copy);
    const auto forgotten = running.forget(name);
    ASSERT_FALSE(forgotten->error.has_value()) << forgotten->error->message;
    EXPECT_EQ(snapshot_names(folder.path()).size(), 1U);
    // The user is gone while the engine runs, without a checkpoint at the end.
    expect_nothing_of(name, events, folder.path());
    // A reward for an event of the forgotten user finds no event.
    EXPECT_EQ(running.reward("event-111", 1.0F)->error->status(), 404);
    running.play(10, 20);
  }
  expect_nothing_of(name, events, folder.path());
  RunningEngine again(folder.path());
  EXPECT_EQ(again.report().counts.forgotten, 1U);
  EXPECT_EQ(again.report().counts.decisions, 33U);
}

TEST(Forgetting, ForgettingThatACrashCutShortIsFinishedAtTheNextStart) {
  const TemporaryFolder folder;
  const std::string name = "somebody-who-leaves";
  {
    ThreadPool threads(1);
    const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
    ModelHost host(*storage, threads);
    host.recover();
    host.create("m", small_model());
    const RankRequest request = request_of(1, name);
    host.decide("m", {&request}, 1000);
    static_cast<void>(host.forget("m", name, 2000));
    storage->log().commit(host.take_batch());  // the process ends before the erasure
  }
  put_file(folder / "snapshots" / "00000001-00000000000000000001.snapshot.part", name);
  RunningEngine running(folder.path());
  wait_until([&] { return log_beside(folder.path()).erasures().empty(); });
  // Once the erasure counts as done, the user is gone from all files, including the WAL.
  expect_nothing_of(name, {1}, folder.path());
}

bool is_in_pieces(const std::string& bytes, const fs::path& folder) {
  return std::ranges::any_of(all_files(folder), [&](const auto& file) {
    return file.first.ends_with(".pieces") && file.second.find(bytes) != std::string::npos;
  });
}

// Snapshots take over pieces of earlier ones, in which the user was.
TEST(Forgetting, NoPieceOfASnapshotHoldsAForgottenUser) {
  const TemporaryFolder folder;
  EngineOptions in_pieces;
  in_pieces.most_copied = 0;
  RunningEngine running(folder.path(), in_pieces);
  ModelOptions options = small_model();
  set_option(options, "options.width", "64");
  set_option(options, "options.normalise", "none");  // so that histories hold features as they came
  running.create("m", options);
  std::vector<Task> ranks;
  std::vector<Task> rewards;
  for (std::uint64_t i = 0; i < 200; ++i) {
    ranks.push_back(rank_task(request_of(i, "user-" + std::to_string(i))));
    rewards.push_back(reward_task("event-" + std::to_string(i), static_cast<float>(i % 2)));
  }
  running.run_together(ranks);
  running.run_together(rewards);
  const std::string name = "somebody-who-leaves";
  std::vector<std::uint64_t> events;
  for (std::uint64_t i = 300; i < 304; ++i) {
    running.rank(request_of(i, name));
    running.reward("event-" + std::to_string(i), 1.0F);
    running.snapshot();
    events.push_back(i);
    const RankRequest request = request_of(i, name);
    const auto holds = [&](std::size_t action) {
      return is_in_pieces(bytes_of(request, action), folder.path());
    };
    EXPECT_TRUE(holds(0) || holds(1) || holds(2)) << "the test looks for what is there";
  }
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const auto& [file, contents] : all_files(folder.path())) {
      sum += file.ends_with(".pieces") ? contents.size() : 0;
    }
    return sum;
  };
  EXPECT_GT(bytes(), 20 * PieceCutter::kUsual);
  ASSERT_FALSE(running.forget(name)->error.has_value());
  expect_nothing_of(name, events, folder.path());
  EXPECT_GT(bytes(), 10 * PieceCutter::kUsual);
}

TEST(Forgetting, SeveralAreForgottenWithOneSnapshot) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  running.play(0, 10);
  const std::uint64_t before = running.metrics.snapshots;
  std::vector<Task> tasks;
  for (const char* user : {"user-1", "user-2", "user-3"}) {
    tasks.push_back(control_task([user](ControlTask& task, ModelHost& host, std::int64_t time) {
      erase_afterwards(task, host.forget("m", user, time));
    }));
  }
  running.run_together(tasks);
  for (const Task& task : tasks) {
    EXPECT_FALSE(base_of(task).error.has_value()) << base_of(task).error->message;
  }
  EXPECT_EQ(running.metrics.snapshots, before + 1);
  EXPECT_EQ(running.report().counts.forgotten, 3U);
}

}  // namespace
}  // namespace mcnb::forgetting_test
