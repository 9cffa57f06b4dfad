// Simulated power cuts under the real store: SQLite's files, snapshots and backups. One life of the
// service is recorded with all that it does to its files, and cut at many moments.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "mcnb/base/files.h"
#include "tests/long_tests.h"
#include "tests/serve/power/power_cut.h"
#include "tests/serve/power/promise_check.h"

namespace mcnb::power_loss_test {
namespace {

namespace fs = std::filesystem;
using namespace power;

// The moment of a cut: anywhere, or just after something was acknowledged, before what comes next
// has synced more.
Moment draw_moment(const Recording& recording, const Promises& promises, Rng& rng) {
  const auto draw_from = [&](const auto& made) -> Moment {
    return made.empty() ? 0 : made[rng.below(made.size())].at;
  };
  const std::size_t end = recording.size();
  Moment moment = 0;
  switch (rng.below(8)) {
    case 0:
      moment = draw_from(promises.decisions);
      break;
    case 1:
      moment = draw_from(promises.rewards);
      break;
    case 2:
    case 3:
      moment = draw_from(promises.forgotten);
      break;
    case 4:
      moment = draw_from(promises.backups);
      break;
    default:
      return rng.below(end + 1);
  }
  return std::min<Moment>(end, moment + rng.below(4));
}

struct Cuts {
  std::size_t made = 0;
  std::size_t bad = 0;
  std::vector<std::string> examples;  // of broken promises
};

Cuts cut_power(const Recording& recording, const Promises& promises, std::uint64_t seed,
               std::size_t count, Ignored ignored = Ignored::kNothing) {
  Cuts cuts;
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed, Stream::kTest, i, 1);
    const Moment moment = draw_moment(recording, promises, rng);
    auto folder = std::make_unique<TemporaryFolder>();
    restore_after_cut(recording, moment, rng, folder->path(), ignored);
    if (rng.chance(0.3)) {  // a second cut, while the service starts again
      Moment begin = 0;
      const Recording start = record_start(folder->path(), promises, begin);
      folder = std::make_unique<TemporaryFolder>();
      restore_after_cut(start, begin + rng.below(start.size() - begin + 1), rng, folder->path(),
                        ignored);
    }
    const std::vector<std::string> broken = broken_promises(folder->path(), promises, moment);
    ++cuts.made;
    cuts.bad += broken.empty() ? 0 : 1;
    for (const std::string& promise : broken) {
      cuts.examples.push_back("seed " + std::to_string(seed) + ", cut " + std::to_string(i) +
                              " before operation " + std::to_string(moment) + ": " + promise);
    }
  }
  return cuts;
}

// The simulator's own tests: what programs may rely on, and what not.
TEST(PowerCut, WholeFilesAreOldOrNewAndStayOnceTheyAreFinished) {
  const TemporaryFolder folder;
  FileRecorder recorder(folder.path());
  const WithoutSyncs quickly;
  const std::string contents[] = {std::string(3000, 'a'), std::string(5000, 'b')};
  const fs::path file = fs::path("one") / "two" / "file";
  Moment finished[2];
  for (int i = 0; i < 2; ++i) {
    write_file(folder.path() / file, contents[i]);
    finished[i] = recorder.count();
  }
  recorder.end();
  Rng rng(1, Stream::kTest);
  for (Moment cut = 0; cut <= finished[1]; ++cut) {
    for (int i = 0; i < 8; ++i) {
      const TemporaryFolder after;
      restore_after_cut(recorder.recording(), cut, rng, after.path());
      const bool exists = fs::exists(after.path() / file);
      const std::string found = file_contents(after.path() / file);
      EXPECT_TRUE(!exists || found == contents[0] || found == contents[1]) << cut;
      EXPECT_TRUE(exists || cut < finished[0]) << cut;
      EXPECT_TRUE(cut < finished[1] || found == contents[1]) << cut;
    }
  }
}

TEST(PowerCut, WhatWasNotSyncedIsLostInPartsAndInAnyOrder) {
  const TemporaryFolder folder;
  FileRecorder recorder(folder.path());
  const auto put = [&](const char* name, int syncs) {
    const int file = ::open((folder / name).c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(::write(file, std::string(2048, 'x').data(), 2048), 2048);
    ASSERT_TRUE(syncs == 0 || ::fsync(file) == 0);
    ::close(file);
  };
  put("kept", 1);
  sync_to_disk(folder.path());
  put("without its folder", 1);
  put("without a sync", 0);
  fs::remove(folder / "kept");
  recorder.end();
  Rng rng(2, Stream::kTest);
  std::map<std::string, int> seen;
  for (int i = 0; i < 300; ++i) {
    const TemporaryFolder after;
    restore_after_cut(recorder.recording(), recorder.recording().size(), rng, after.path());
    std::string state;
    for (const auto& [name, bytes] : cases::all_files(after.path())) {
      const auto lost = std::ranges::count(bytes, '\0');
      ++seen[name + (bytes.size() < 2048 ? ": short" : lost == 0 ? ": whole" : ": with holes")];
      state += name + ";";
    }
    ++seen[state];
  }
  for (const char* state : {"kept: whole", "without its folder: whole", "without a sync: whole",
                            "without a sync: short", "without a sync: with holes", "", "kept;",
                            "without a sync;without its folder;", "kept;without its folder;",
                            "kept;without a sync;", "without a sync;"}) {
    EXPECT_GT(seen[state], 0) << "'" << state << "'";
  }
  EXPECT_EQ(seen["kept: short"] + seen["kept: with holes"], 0);
  EXPECT_EQ(seen["without its folder: short"] + seen["without its folder: with holes"], 0);
}

TEST(PowerLoss, NoPromiseIsBroken) {
  constexpr std::size_t kCutsOfARecording = 40;
  const std::uint64_t seed = test_seed();
  const std::uint64_t wanted = repeats("MCNB_POWER_CUTS", 40);
  std::size_t trims = 0;
  std::size_t restarts = 0;
  std::size_t forgotten = 0;
  std::size_t backups = 0;
  for (std::uint64_t done = 0; done < wanted; done += kCutsOfARecording) {
    const TemporaryFolder folder;
    const RecordedService service(folder.path(), seed + done / kCutsOfARecording, 150);
    const Cuts cuts =
        cut_power(service.recording(), service.promises(), seed + done / kCutsOfARecording,
                  std::min<std::uint64_t>(wanted - done, kCutsOfARecording));
    for (const std::string& promise : cuts.examples) {
      ADD_FAILURE() << promise;
    }
    trims += service.trims;
    restarts += service.restarts;
    forgotten += service.promises().forgotten.size();
    backups += service.promises().backups.size();
  }
  EXPECT_GT(trims, 0U);
  EXPECT_GT(restarts, 0U);
  EXPECT_GT(forgotten, 3U);
  EXPECT_GT(backups, 1U);
}

TEST(PowerLoss, NoPromiseIsBrokenByThreads) {
  const TemporaryFolder folder;
  const ThreadedLife recorded = record_threads(folder.path(), 20);
  EXPECT_GT(recorded.promises.forgotten.size(), 3U);
  EXPECT_GT(recorded.promises.decisions.size(), 60U);
  const Cuts cuts = cut_power(recorded.recording, recorded.promises, test_seed(),
                              repeats("MCNB_POWER_CUTS", 30) / 2);
  for (const std::string& promise : cuts.examples) {
    ADD_FAILURE() << promise;
  }
}

// SQLite moves rows between pages when others are erased, and leaves copies of them behind. In
// these lives, some of them were of users who were forgotten later.
TEST(PowerLoss, NoCopyOfAForgottenUsersRowIsLeftInThePages) {
  for (const std::uint64_t seed : {8, 11, 12, 22}) {
    const TemporaryFolder folder;
    const RecordedService service(folder.path(), seed, 150);
    for (const std::string& promise :
         broken_promises(folder.path(), service.promises(), service.recording().size())) {
      ADD_FAILURE() << "seed " << seed << ": " << promise;
    }
  }
}

// The recording is complete: what it says is what the folder holds.
TEST(PowerLoss, TheRecordingHasEveryByte) {
  const TemporaryFolder folder;
  const RecordedService service(folder.path(), 2, 60);
  const TemporaryFolder restored;
  restore_all(service.recording(), restored.path());
  const auto files = cases::all_files(folder.path());
  EXPECT_GT(files.size(), 3U);
  EXPECT_TRUE(cases::all_files(restored.path()) == files);
}

TEST(PowerLoss, MissingSyncsAreNoticed) {
  const TemporaryFolder folder;
  const RecordedService service(folder.path(), 1, 150);
  EXPECT_GT(cut_power(service.recording(), service.promises(), 5, 20, Ignored::kSyncsOfFiles).bad,
            3U);
  EXPECT_GT(cut_power(service.recording(), service.promises(), 5, 20, Ignored::kSyncsOfFolders).bad,
            3U);
}

}  // namespace
}  // namespace mcnb::power_loss_test
