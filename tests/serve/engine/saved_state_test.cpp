// Snapshots of large states are sent by a child process while the model goes on.

#include "mcnb/serve/engine/saved_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "mcnb/base/error.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/store/piece_cases.h"

namespace mcnb::saved_state_test {
namespace {

using namespace cases;

constexpr std::uint64_t kStore = 77;

// Pieces by their names.
struct PieceMap : KnownPieces {
  bool has(const PieceName& name) const override { return bytes.contains(name); }
  std::map<PieceName, std::string> bytes;
};

// The bytes of the state; those of known pieces come from `base`.
std::string read_all(SavedState& state, const PieceMap* base = nullptr) {
  if (!state.in_pieces()) {
    return std::string(state.next());
  }
  std::string contents;
  const PiecedState pieces = state.pieces();
  while (const std::optional<SnapshotPiece> piece = pieces.next()) {
    contents += piece->bytes.empty() ? base->bytes.at(piece->name) : std::string(piece->bytes);
  }
  return framed(contents);
}

void teach(Ledger& ledger, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t i = from; i < to; ++i) {
    ledger.rank(request_of(i, "user-" + std::to_string(i % 30)));
    if (i % 3 > 0) {
      ledger.reward("event-" + std::to_string(i), static_cast<float>(i % 2));
    }
  }
}

// More bytes than a pipe takes before somebody reads it: the child waits.
ModelOptions large_model() {
  ModelOptions options = small_model();
  set_option(options, "options.width", "16384");
  return options;
}

TEST(SavedState, HasTheBytesOfItsMomentWhileTheModelGoesOn) {
  std::vector<ModelOptions> kinds{small_model(), small_model(), small_model()};
  kinds[1].policy = parse_policy("hierarchical:first_fit=6:fit_growth=1.2");
  kinds[2].policy = parse_policy("linucb:users=each");
  for (const ModelOptions& options : kinds) {
    SCOPED_TRACE(options.policy.name);
    Ledger ledger(options);
    teach(ledger, 0, 40);
    const std::string expected = snapshot_bytes(*ledger, kStore);
    SavedState forked(*ledger, kStore, 0);
    SavedState copied(*ledger, kStore, kMostCopied);
    EXPECT_GT(forked.child(), 0);
    EXPECT_EQ(copied.child(), 0);
    EXPECT_FALSE(forked.size().has_value());
    EXPECT_EQ(copied.size(), expected.size());
    teach(ledger, 40, 60);
    ASSERT_NE(snapshot_bytes(*ledger, kStore), expected);
    EXPECT_EQ(read_all(forked), expected);
    EXPECT_EQ(read_all(copied), expected);
    EXPECT_EQ(forked.child(), 0) << "the child is gone once everything was read";
    EXPECT_FALSE(forked.pieces().next().has_value());
  }
}

TEST(SavedState, TakesALargeStateInPieces) {
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  const std::string expected = snapshot_bytes(*ledger, kStore);
  ASSERT_GT(expected.size(), std::size_t{4} << 20);
  SavedState state(*ledger, kStore, 0);
  EXPECT_LT(state.memory_bytes(), static_cast<double>(expected.size()));
  EXPECT_LT(state.pieces().next()->bytes.size(), expected.size());
  SavedState again(*ledger, kStore, 0);
  EXPECT_EQ(read_all(again), expected);
}

TEST(SavedState, AChildThatHangsIsEnded) {
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  SavedState state(*ledger, kStore, 0, nullptr, std::chrono::milliseconds(200));
  const pid_t child = state.child();
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  try {
    read_all(state);
    FAIL() << "the state came from a child that was stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSystem);
    EXPECT_NE(std::string(error.what()).find("has sent nothing"), std::string::npos);
  }
  EXPECT_EQ(state.child(), 0);
  EXPECT_EQ(::kill(child, 0), -1) << "no process is left";
}

TEST(SavedState, OnlyPiecesThatChangedComeWithTheirBytes) {
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  const auto base = std::make_shared<PieceMap>();
  std::uint64_t whole = 0;
  SavedState first(*ledger, kStore, 0);
  while (const std::optional<SnapshotPiece> piece = first.pieces().next()) {
    base->bytes[piece->name] = piece->bytes;
    whole += piece->bytes.size();
  }
  teach(ledger, 30, 32);
  const std::string expected = snapshot_bytes(*ledger, kStore);
  SavedState second(*ledger, kStore, 0, base);
  EXPECT_EQ(read_all(second, base.get()), expected);
  std::uint64_t changed = 0;
  SavedState again(*ledger, kStore, 0, base);
  while (const std::optional<SnapshotPiece> piece = again.pieces().next()) {
    changed += piece->bytes.size();
  }
  EXPECT_GT(changed, 0U);
  EXPECT_LT(changed, whole / 2);
}

// A lock that the child kept would keep the next service out of the data folder.
TEST(SavedState, TheChildKeepsNoFileOpenButItsPipe) {
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  const TemporaryFolder folder;
  const std::ofstream open_file(folder.path() / "open");
  SavedState state(*ledger, kStore, 0);
  ASSERT_TRUE(state.pieces().next().has_value());
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(state.child()) + "/fd")) {
    files.push_back(std::filesystem::read_symlink(entry.path()).string());
  }
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].substr(0, 5), "pipe:");
}

// Also in a process that was started with its children ignored.
TEST(SavedState, AChildThatIsKilledIsAnError) {
  ::signal(SIGCHLD, SIG_IGN);
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  SavedState state(*ledger, kStore, 0);
  ASSERT_TRUE(state.pieces().next().has_value());
  ASSERT_EQ(::kill(state.child(), SIGKILL), 0);
  try {
    read_all(state);
    FAIL() << "half a state was taken for a whole one";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSystem);
    EXPECT_NE(std::string(error.what()).find("Killed"), std::string::npos) << error.what();
  }
}

TEST(SavedState, OneThatNobodyReadsLeavesNoProcess) {
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  pid_t child = 0;
  {
    const SavedState state(*ledger, kStore, 0);
    child = state.child();
    ASSERT_EQ(::kill(child, 0), 0);
  }
  EXPECT_EQ(::kill(child, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// True while the process runs; false if it has ended, also if nobody has asked how.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number;
  std::string name;
  char state = 'Z';
  file >> number >> name >> state;
  return state != 'Z';
}

TEST(SavedState, TheChildEndsWithTheService) {
  Ledger ledger(large_model());
  teach(ledger, 0, 30);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t service = ::fork();
  if (service == 0) {
    const SavedState state(*ledger, kStore, 0);
    const pid_t child = state.child();
    const bool told = ::write(ends[1], &child, sizeof child) == sizeof child;
    ::_exit(told ? 0 : 1);  // as if it were killed: nothing is cleaned up
  }
  pid_t child = 0;
  ASSERT_EQ(::read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ::close(ends[0]);
  ::close(ends[1]);
  int status = 1;
  ASSERT_EQ(::waitpid(service, &status, 0), service);
  ASSERT_EQ(status, 0);
  for (int i = 0; i < 3000 && runs(child); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(runs(child));
}

// The engine with its threads, a restart, and a forgotten user.
TEST(SavedState, AnEngineStartsFromSnapshotsOfChildren) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.most_copied = 0;
  std::uint64_t state = 0;
  {
    RunningEngine engine(folder.path(), options);
    engine.create("m", small_model());
    engine.play_together(0, 40);
    ASSERT_FALSE(engine.snapshot()->error.has_value());
    engine.play_together(40, 60);
    ASSERT_FALSE(engine.forget("user-1")->error.has_value());
    EXPECT_EQ(snapshots_in(folder.path()).size(), 1U) << "older ones know the user";
    engine.play_together(60, 70);
    engine.control(
        [&](ControlTask&, ModelHost& host, std::int64_t) { state = host.digests().at("m"); });
  }
  EXPECT_EQ(snapshots_in(folder.path()).size(), 2U) << "the last one is written at the end";
  EXPECT_EQ(digest_of(folder.path()), state);
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  const Recovery recovery = host.recover();
  EXPECT_EQ(recovery.rows, 0U) << "the latest snapshot has everything";
  EXPECT_TRUE(recovery.damaged.empty());
}

}  // namespace
}  // namespace mcnb::saved_state_test
