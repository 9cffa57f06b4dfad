#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/state_file.h"
#include "tests/base/state_file_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::state_file_disk_test {
namespace {

using namespace state_file_cases;

class StateFileOnDisk : public testing::Test {
 protected:
  void expect_load_error(ErrorKind kind, const std::string& part) const {
    expect_error(kind, path_.string(), part,
                 [&] { load_state_file(path_, kHeader, read_small_or_throw); });
  }
  void expect_only_the_small_state() const {
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.state"});
    load_state_file(path_, kHeader, read_small_or_throw);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "a.state";
};

TEST_F(StateFileOnDisk, HoldsWhatAStreamWouldAndComesBack) {
  save_state_file(path_, kHeader, write_small);
  EXPECT_EQ(file_contents(path_), state_of(write_small));
  expect_only_the_small_state();
}

TEST_F(StateFileOnDisk, ANewStateReplacesTheOldOne) {
  save_state_file(path_, {"old", 9}, [](StateWriter& writer) {
    writer.write_string("which is longer than the new one, so that some of it might remain");
  });
  save_state_file(path_, kHeader, write_small);
  expect_only_the_small_state();
}

TEST_F(StateFileOnDisk, AWriterThatThrowsLeavesTheOldState) {
  save_state_file(path_, kHeader, write_small);
  const auto throw_late = [](StateWriter& writer) {
    writer.write_all(std::vector<char>(2 * kFrameBytes));
    throw std::logic_error("changed its mind");
  };
  EXPECT_THROW(save_state_file(path_, kHeader, throw_late), std::logic_error);
  expect_only_the_small_state();
  std::filesystem::remove(path_);
  EXPECT_THROW(save_state_file(path_, kHeader, throw_late), std::logic_error);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{});
}

// Saves in a process with files limited to 100 kB. Exits with 0 if the failure is reported.
[[noreturn]] void save_beyond_the_limit(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{100'000, 100'000};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
    std::_Exit(3);
  }
  try {
    save_state_file(path, kHeader,
                    [](StateWriter& writer) { writer.write_all(std::vector<char>(200'000)); });
  } catch (const Error& error) {
    std::_Exit(error.kind() == ErrorKind::kSystem ? 0 : 1);
  }
  std::_Exit(2);
}

using StateFileOnDiskDeathTest = StateFileOnDisk;

TEST_F(StateFileOnDiskDeathTest, ADiskThatFillsUpLeavesTheOldState) {
  save_state_file(path_, kHeader, write_small);
  EXPECT_EXIT(save_beyond_the_limit(path_), testing::ExitedWithCode(0), "");
  expect_only_the_small_state();
}

TEST_F(StateFileOnDisk, AMissingFolderIsNamed) {
  path_ = folder_ / "missing" / "a.state";
  expect_error(ErrorKind::kSystem, path_.string(), "No such file or directory",
               [&] { save_state_file(path_, kHeader, write_small); });
  EXPECT_EQ(folder_.names(), std::vector<std::string>{});
}

TEST_F(StateFileOnDisk, AFolderIsNotOverwritten) {
  std::filesystem::create_directory(path_);
  expect_error(ErrorKind::kSystem, path_.string(), "directory",
               [&] { save_state_file(path_, kHeader, write_small); });
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.state"});
  EXPECT_TRUE(std::filesystem::is_directory(path_));
}

TEST_F(StateFileOnDisk, AFileNameWithoutAFolderMeansThisOne) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  EXPECT_NO_THROW(save_state_file("a.state", kHeader, write_small));
  std::filesystem::current_path(before);
  expect_only_the_small_state();
}

TEST_F(StateFileOnDisk, AMissingFileIsTheSystemsErrorNotDamage) {
  expect_load_error(ErrorKind::kSystem, "No such file or directory");
}

TEST_F(StateFileOnDisk, AFileThatCannotBeReadIsTheSystemsErrorNotDamage) {
  std::filesystem::create_directory(path_);
  expect_load_error(ErrorKind::kSystem, "cannot read");
}

TEST_F(StateFileOnDisk, DamageNamesTheFile) {
  put_file(path_, "");
  expect_load_error(ErrorKind::kCorrupt, "not a saved mcnb state");
  put_file(path_, "user,item,rating\n1,2,3\n");
  expect_load_error(ErrorKind::kCorrupt, "not a saved mcnb state");
  const std::string good = state_of(write_small);
  put_file(path_, good.substr(0, good.size() - 1));
  expect_load_error(ErrorKind::kCorrupt, "truncated");
  put_file(path_, good + "x");
  expect_load_error(ErrorKind::kCorrupt, "more bytes follow");
}

TEST_F(StateFileOnDisk, AReaderThatStopsEarlyIsRefused) {
  save_state_file(path_, kHeader, write_small);
  expect_error(ErrorKind::kCorrupt, path_.string(), "more data follows", [&] {
    load_state_file(path_, kHeader, [](StateReader& reader) { reader.read<std::uint32_t>(); });
  });
}

}  // namespace
}  // namespace mcnb::state_file_disk_test
