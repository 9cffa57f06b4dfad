#include "mcnb/base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "tests/temporary_folder.h"

namespace mcnb::files_test {
namespace {

class WholeFile : public testing::Test {
 protected:
  // Expects a refusal that names the file and this reason of the system.
  void expect_refused(const std::filesystem::path& path, const std::string& reason) {
    try {
      write_file(path, "new");
      ADD_FAILURE() << path << " was written";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kSystem);
      EXPECT_TRUE(message.starts_with(path.string() + ":")) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
    }
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "table.csv";
};

TEST_F(WholeFile, HoldsExactlyTheText) {
  for (const std::string& text : {std::string("a,b\r\n\"\xff\"\n"), std::string(100'000, 'x'),
                                  std::string("zero \0 inside", 13), std::string()}) {
    write_file(path_, text);
    EXPECT_TRUE(file_contents(path_) == text) << text.substr(0, 20);
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
  }
}

TEST_F(WholeFile, MakesMissingFolders) {
  const std::filesystem::path deep = folder_ / "results" / "2024" / "table.csv";
  write_file(deep, "one\n");
  write_file(deep, "two\n");
  EXPECT_EQ(file_contents(deep), "two\n");
}

TEST_F(WholeFile, AFileWhereAFolderIsNeededIsReported) {
  write_file(path_, "old");
  expect_refused(path_ / "inside.csv", "Not a directory");
  EXPECT_EQ(file_contents(path_), "old");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
}

TEST_F(WholeFile, AFolderIsNotOverwritten) {
  std::filesystem::create_directory(path_);
  expect_refused(path_, "directory");
  EXPECT_TRUE(std::filesystem::is_directory(path_));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"}) << "no half file is left";
}

// Writes in a process with files limited to 1000 bytes. Exits with 0 if the failure is reported.
[[noreturn]] void write_beyond_the_limit(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
    std::_Exit(3);
  }
  try {
    write_file(path, std::string(5000, 'n'));
  } catch (const Error& error) {
    std::_Exit(error.kind() == ErrorKind::kSystem ? 0 : 1);
  }
  std::_Exit(2);
}

using WholeFileDeathTest = WholeFile;

TEST_F(WholeFileDeathTest, ADiskThatFillsUpLeavesTheOldText) {
  write_file(path_, "old");
  EXPECT_EXIT(write_beyond_the_limit(path_), testing::ExitedWithCode(0), "");
  EXPECT_EQ(file_contents(path_), "old");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
}

TEST_F(WholeFile, ThatIsNotFinishedLeavesTheOldOne) {
  write_file(path_, "old");
  {
    FileWriter file(path_);
    file.write("new");
    EXPECT_EQ(folder_.names().size(), 2U) << "the new bytes lie beside the old file";
    EXPECT_EQ(file_contents(path_), "old");
  }
  EXPECT_EQ(file_contents(path_), "old");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
}

TEST_F(WholeFile, HoldsWhatItsStreamWasGiven) {
  FileWriter file(path_);
  file.stream() << "one " << 2;
  file.stream().put('\n');
  file.finish();
  EXPECT_EQ(file_contents(path_), "one 2\n");
}

TEST_F(WholeFile, OfItsOwnerIsForNobodyElse) {
  write_file(path_, "secret", FileAccess::kOwner);
  struct ::stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

}  // namespace
}  // namespace mcnb::files_test
