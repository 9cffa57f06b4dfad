#include "mcnb/base/table.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "tests/temporary_folder.h"

namespace mcnb::table_test {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Table table_of(const Rows& rows) {
  Table table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    table.add_row(rows[i]);
  }
  return table;
}

TEST(Table, NumbersStandToTheRightAndWordsToTheLeft) {
  const Table table = table_of({{"policy", "regret", "time"},
                                {"mcnb", "12.5", "3 ms"},
                                {"club", "-100", "12 ms"},
                                {"linucb", "+7", "0.25 ms"}});
  EXPECT_EQ(table.row_count(), 3U);
  EXPECT_EQ(table.aligned(),
            "policy  regret     time\n"
            "------  ------  -------\n"
            "mcnb      12.5     3 ms\n"
            "club      -100    12 ms\n"
            "linucb      +7  0.25 ms\n");
}

TEST(Table, NamesWithDigitsAreWords) {
  EXPECT_EQ(table_of({{"instructions", "n"}, {"avx2", "1"}, {"sse4", "2"}}).aligned(),
            "instructions  n\n"
            "------------  -\n"
            "avx2          1\n"
            "sse4          2\n");
}

TEST(Table, AMissingNumberLeavesAColumnOfNumbersOne) {
  EXPECT_EQ(table_of({{"PyTorch", "ours"}, {"-", "1.5"}, {"31", ""}, {".5", "10"}}).aligned(),
            "PyTorch  ours\n"
            "-------  ----\n"
            "      -   1.5\n"
            "     31\n"
            "     .5    10\n");
}

TEST(Table, OneWordMakesAColumnOneOfWords) {
  EXPECT_EQ(table_of({{"value"}, {"10"}, {"none"}}).aligned(), "value\n-----\n10\nnone\n");
}

TEST(Table, NoLineEndsInSpaces) {
  EXPECT_EQ(table_of({{"n", "why"}, {"1", "no reason"}, {"2", "x"}}).aligned(),
            "n  why\n"
            "-  ---------\n"
            "1  no reason\n"
            "2  x\n");
}

TEST(Table, WidthsCountCharactersNotBytes) {
  EXPECT_EQ(table_of({{"größe", "n"}, {"für", "1"}, {"klein", "2"}}).aligned(),
            "größe  n\n"
            "-----  -\n"
            "für    1\n"
            "klein  2\n");
}

TEST(Table, WithoutRowsShowsItsHeadings) {
  EXPECT_EQ(Table({"a", "bb"}).aligned(), "a  bb\n-  --\n");
  EXPECT_EQ(Table({"a", "bb"}).csv(), "a,bb\n");
}

TEST(Table, MarkdownEscapesTheBarsOfCells) {
  Table table({"option", "expected"});
  table.add_row({"users", "one | each"});
  EXPECT_EQ(table.markdown(), "| option | expected |\n|---|---|\n| users | one \\| each |\n");
}

TEST(Table, OnlyCellsThatNeedQuotesGetThem) {
  EXPECT_EQ(
      table_of({{"plain", "a,b", "say \"hi\"", "two\nlines", "old\rmac", " spaces ", ""}}).csv(),
      "plain,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"old\rmac\", spaces ,\n");
}

// A reader of RFC 4180, which takes the text apart without knowing how it was put together.
Rows parse_csv(const std::string& text) {
  Rows rows(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      rows.back().back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      rows.back().emplace_back();
    } else if (!quoted && c == '\n') {
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  EXPECT_FALSE(quoted) << "a quote is left open";
  EXPECT_EQ(rows.back(), std::vector<std::string>{""}) << "the last line has no end";
  rows.pop_back();
  return rows;
}

TEST(Table, AReaderOfCsvFindsTheCellsAgain) {
  const std::string letters = "ab,\"\r\n ;'\t";
  Rng rng(1, Stream::kTest);
  for (int trial = 0; trial < 500; ++trial) {
    const std::size_t columns = 1 + rng.below(4);
    Rows rows(1 + rng.below(4), std::vector<std::string>(columns));
    for (auto& row : rows) {
      for (std::string& cell : row) {
        for (std::size_t length = rng.below(6); length > 0; --length) {
          cell += letters[rng.below(letters.size())];
        }
      }
    }
    const std::string csv = table_of(rows).csv();
    EXPECT_EQ(parse_csv(csv), rows) << csv;
  }
}

TEST(TableDeathTest, ARowOfAnotherLengthIsABug) {
  Table table({"a", "b"});
  EXPECT_EXIT(table.add_row({"1"}), testing::KilledBySignal(SIGABRT), "as many cells");
  EXPECT_EXIT(table.add_row({"1", "2", "3"}), testing::KilledBySignal(SIGABRT), "as many cells");
}

class TextFile : public testing::Test {
 protected:
  // Expects a refusal that names the file and, of the system's reasons, this one.
  void expect_refused(const std::filesystem::path& path, const std::string& reason) {
    try {
      write_text_file(path, "new");
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

TEST_F(TextFile, HoldsExactlyTheText) {
  for (const std::string& text : {std::string("a,b\r\n\"\xff\"\n"), std::string(100'000, 'x'),
                                  std::string("zero \0 inside", 13), std::string()}) {
    write_text_file(path_, text);
    EXPECT_TRUE(file_contents(path_) == text) << text.substr(0, 20);
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
  }
}

TEST_F(TextFile, MakesTheFoldersOnItsWay) {
  const std::filesystem::path deep = folder_ / "results" / "2024" / "table.csv";
  write_text_file(deep, "one\n");
  write_text_file(deep, "two\n");
  EXPECT_EQ(file_contents(deep), "two\n");
}

TEST_F(TextFile, AFileInThePlaceOfAFolderIsReported) {
  write_text_file(path_, "old");
  expect_refused(path_ / "inside.csv", "Not a directory");
  EXPECT_EQ(file_contents(path_), "old");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
}

TEST_F(TextFile, AFolderIsNotOverwritten) {
  std::filesystem::create_directory(path_);
  expect_refused(path_, "directory");
  EXPECT_TRUE(std::filesystem::is_directory(path_));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"}) << "no half file is left";
}

// In a process whose files may not grow beyond 1000 bytes; it ends with 0 if that is reported.
[[noreturn]] void write_beyond_the_limit(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
    std::_Exit(3);
  }
  try {
    write_text_file(path, std::string(5000, 'n'));
  } catch (const Error& error) {
    std::_Exit(error.kind() == ErrorKind::kSystem ? 0 : 1);
  }
  std::_Exit(2);
}

using TextFileDeathTest = TextFile;

TEST_F(TextFileDeathTest, ADiskThatFillsUpLeavesTheOldText) {
  write_text_file(path_, "old");
  EXPECT_EXIT(write_beyond_the_limit(path_), testing::ExitedWithCode(0), "");
  EXPECT_EQ(file_contents(path_), "old");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"table.csv"});
}

}  // namespace
}  // namespace mcnb::table_test
