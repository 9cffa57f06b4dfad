#include "mcnb/base/text_table.h"
#include "mcnb/base/files.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb::text_table_test {
namespace {

using Rows = std::vector<std::vector<std::string>>;

TextTable table_of(const Rows& rows) {
  TextTable table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    table.add_row(rows[i]);
  }
  return table;
}

TEST(TextTable, NumbersStandToTheRightAndWordsToTheLeft) {
  const TextTable table = table_of({{"policy", "regret", "time"},
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

TEST(TextTable, NamesWithDigitsAreWords) {
  EXPECT_EQ(table_of({{"instructions", "n"}, {"avx2", "1"}, {"sse4", "2"}}).aligned(),
            "instructions  n\n"
            "------------  -\n"
            "avx2          1\n"
            "sse4          2\n");
}

TEST(TextTable, AMissingNumberLeavesAColumnOfNumbersOne) {
  EXPECT_EQ(table_of({{"PyTorch", "ours"}, {"-", "1.5"}, {"31", ""}, {".5", "10"}}).aligned(),
            "PyTorch  ours\n"
            "-------  ----\n"
            "      -   1.5\n"
            "     31\n"
            "     .5    10\n");
}

TEST(TextTable, OneWordMakesAColumnOneOfWords) {
  EXPECT_EQ(table_of({{"value"}, {"10"}, {"none"}}).aligned(), "value\n-----\n10\nnone\n");
}

TEST(TextTable, NoLineEndsInSpaces) {
  EXPECT_EQ(table_of({{"n", "why"}, {"1", "no reason"}, {"2", "x"}}).aligned(),
            "n  why\n"
            "-  ---------\n"
            "1  no reason\n"
            "2  x\n");
}

TEST(TextTable, WidthsCountCharactersNotBytes) {
  EXPECT_EQ(table_of({{"größe", "n"}, {"für", "1"}, {"klein", "2"}}).aligned(),
            "größe  n\n"
            "-----  -\n"
            "für    1\n"
            "klein  2\n");
}

TEST(TextTable, WithoutRowsShowsItsHeadings) {
  EXPECT_EQ(TextTable({"a", "bb"}).aligned(), "a  bb\n-  --\n");
  EXPECT_EQ(TextTable({"a", "bb"}).csv(), "a,bb\n");
}

TEST(TextTable, MarkdownEscapesTheBarsOfCells) {
  TextTable table({"option", "expected"});
  table.add_row({"users", "one | each"});
  EXPECT_EQ(table.markdown(), "| option | expected |\n|---|---|\n| users | one \\| each |\n");
}

TEST(TextTable, OnlyCellsThatNeedQuotesGetThem) {
  EXPECT_EQ(
      table_of({{"plain", "a,b", "say \"hi\"", "two\nlines", "old\rmac", " spaces ", ""}}).csv(),
      "plain,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"old\rmac\", spaces ,\n");
}

// A reader of RFC 4180 that does not depend on how the text was written.
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

TEST(TextTable, AReaderOfCsvFindsTheCellsAgain) {
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

TEST(TextTableDeathTest, ARowOfAnotherLengthIsABug) {
  TextTable table({"a", "b"});
  EXPECT_EXIT(table.add_row({"1"}), testing::KilledBySignal(SIGABRT), "as many cells");
  EXPECT_EXIT(table.add_row({"1", "2", "3"}), testing::KilledBySignal(SIGABRT), "as many cells");
}

}  // namespace
}  // namespace mcnb::text_table_test
