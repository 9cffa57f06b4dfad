// Simulated power cuts under the real store: SQLite's files, snapshots and backups. One life of the
// service is recorded with all that it does to its files, and cut at many moments.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/long_tests.h"
#include "tests/serve/power/power_cut.h"
#include "tests/serve/power/promise_check.h"

namespace mcnb::power_loss_test {
namespace {

namespace fs = std::filesystem;
using namespace power;

// From the environment: MCNB_POWER_CUTS, MCNB_POWER_SEED.
std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The moment of a cut: anywhere, or just after something was acknowledged, before what comes next
// has synced more.
Moment draw_moment(const RecordedService& service, Rng& rng) {
  const Promises& promises = service.promises();
  const auto draw_from = [&](const auto& made) -> Moment {
    return made.empty() ? 0 : made[rng.below(made.size())].at;
  };
  const std::size_t end = service.recording().size();
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

Cuts cut_power(const RecordedService& service, std::uint64_t seed, std::size_t count,
               Ignored ignored = Ignored::kNothing) {
  Cuts cuts;
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed, Stream::kTest, i, 1);
    const Moment moment = draw_moment(service, rng);
    const TemporaryFolder folder;
    restore_after_cut(service.recording(), moment, rng, folder.path(), ignored);
    const std::vector<std::string> broken =
        broken_promises(folder.path(), service.promises(), moment);
    ++cuts.made;
    cuts.bad += broken.empty() ? 0 : 1;
    for (const std::string& promise : broken) {
      cuts.examples.push_back("seed " + std::to_string(seed) + ", cut " + std::to_string(i) +
                              " before operation " + std::to_string(moment) + ": " + promise);
    }
  }
  return cuts;
}

TEST(PowerLoss, NoPromiseIsBroken) {
  constexpr std::size_t kCutsOfARecording = 40;
  const std::uint64_t seed = number_from("MCNB_POWER_SEED", 1);
  const std::uint64_t wanted = number_from("MCNB_POWER_CUTS", long_tests() ? 1000 : 40);
  std::size_t trims = 0;
  std::size_t restarts = 0;
  std::size_t forgotten = 0;
  std::size_t backups = 0;
  for (std::uint64_t done = 0; done < wanted; done += kCutsOfARecording) {
    const TemporaryFolder folder;
    const RecordedService service(folder.path(), seed + done / kCutsOfARecording, 150);
    const Cuts cuts = cut_power(service, seed + done / kCutsOfARecording,
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
  EXPECT_GT(cut_power(service, 5, 20, Ignored::kSyncsOfFiles).bad, 3U);
  EXPECT_GT(cut_power(service, 5, 20, Ignored::kSyncsOfFolders).bad, 3U);
}

}  // namespace
}  // namespace mcnb::power_loss_test
