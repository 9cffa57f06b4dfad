#include "mcnb/data/formats/text_reader.h"

#include <fmt/core.h>

#include "tests/data/data_files.h"

namespace mcnb::text_reader_test {
namespace {

// Keeps lines; refuses "bad", leaves out what starts with '#'.
struct LinePart : TextPart {
  std::vector<std::string> kept;

  void row(std::string_view line) {
    if (line == "bad") {
      refuse_field("line", "a good one", line);
    }
    if (line.starts_with('#')) {
      skip("comments");
    } else {
      kept.emplace_back(line);
    }
  }

  void reset() {
    TextPart::reset();
    kept.clear();
  }
};

struct Result {
  std::vector<std::string> lines;
  ReadReport report;
};

Result read_lines(const std::string& text, std::size_t thread_count = 1) {
  ThreadPool threads(thread_count);
  TextReader reader(text_input(text, "a.txt"), threads);
  Result result;
  reader.for_each_part([] { return LinePart{}; },
                       [&](std::span<LinePart> parts) {
                         for (const LinePart& part : parts) {
                           result.lines.insert(result.lines.end(), part.kept.begin(),
                                               part.kept.end());
                         }
                       });
  result.report = reader.report();
  return result;
}

using Lines = std::vector<std::string>;

TEST(TextReader, GivesLinesWithoutTheirEnds) {
  EXPECT_EQ(read_lines("a\nb\n").lines, (Lines{"a", "b"}));
  EXPECT_EQ(read_lines("a\r\n\r\n  \nb").lines, (Lines{"a", "b"}));
  EXPECT_EQ(read_lines("\xef\xbb\xbf"
                       "a\n")
                .lines,
            Lines{"a"});
  EXPECT_EQ(read_lines("\n\n").lines, Lines{});
}

TEST(TextReader, EmptyFilesAndUtf16AreRefused) {
  EXPECT_EQ(refusal([] { read_lines(""); }), "a.txt: expected lines of text, found an empty file");
  EXPECT_EQ(refusal([] { read_lines(gzipped("")); }),
            "a.txt: expected lines of text, found an empty file");
  EXPECT_EQ(refusal([] {
              read_lines(
                  std::string("\xff\xfe"
                              "a\0",
                              4));
            }),
            "a.txt: expected text in UTF-8, found UTF-16");
}

// Long enough for many blocks and pieces, with lines of many lengths.
struct LongText {
  std::string text;
  Lines lines;
};

LongText long_text(std::size_t count) {
  LongText result;
  for (std::size_t i = 0; i < count; ++i) {
    result.lines.push_back(fmt::format("{:0{}}", i, 10 + i % 97));
    result.text += result.lines.back() + (i % 3 == 0 ? "\r\n" : "\n");
    if (i % 1000 == 0) {
      result.text += "\n";
    }
  }
  return result;
}

TEST(TextReader, EveryLineArrivesOnceInOrderOnAnyNumberOfThreads) {
  const LongText expected = long_text(120000);
  for (const std::size_t threads : {1U, 2U, 8U}) {
    EXPECT_EQ(read_lines(expected.text, threads).lines, expected.lines);
    EXPECT_EQ(read_lines(gzipped(expected.text), threads).lines, expected.lines);
  }
}

TEST(TextReader, TheFirstWrongLineIsNamed) {
  const std::string good = long_text(100000).text;
  const auto lines = std::count(good.begin(), good.end(), '\n');
  for (const std::size_t threads : {1U, 3U}) {
    EXPECT_EQ(refusal([&] { read_lines(good + "bad\nbad\n" + good + "bad\n", threads); }),
              fmt::format("a.txt:{}: line: expected a good one, found 'bad'", lines + 1));
  }
}

TEST(TextReader, LinesBeforeATornEndAreToldOfFirst) {
  const std::string packed = gzipped("bad\n" + long_text(50000).text);
  EXPECT_EQ(refusal([&] { read_lines(packed.substr(0, packed.size() - 20)); }),
            "a.txt:1: line: expected a good one, found 'bad'");
  const std::string other = gzipped(long_text(50000).text);
  EXPECT_EQ(refusal([&] { read_lines(other.substr(0, other.size() - 20)); }),
            "a.txt: expected data compressed by gzip, but it ends within the compressed data");
}

TEST(TextReader, LinesLeftOutAreCountedFromTheFirst) {
  const std::string good = long_text(60000).text;
  const auto lines = std::count(good.begin(), good.end(), '\n');
  const ReadReport report = read_lines(good + "#\n" + good + "#\n", 2).report;
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_EQ(report.skipped[0],
            (ReadReport::Skipped{"comments", 2, fmt::format("a.txt:{}", lines + 1)}));
}

TEST(TextReader, LongLinesArriveWholeAndEndlessOnesAreRefused) {
  const std::string line(3 << 20, 'x');
  EXPECT_EQ(read_lines("a\n" + line + "\nb\n").lines, (Lines{"a", line, "b"}));
  EXPECT_EQ(read_lines(line).lines, Lines{line});
  EXPECT_EQ(refusal([] { read_lines(std::string(5 * TextReader::kLongestLine / 2, 'x')); }),
            "a.txt: expected lines of at most 16777216 bytes, found a longer one");
}

TEST(TextReader, ALineCanBeLookedAtBeforeItIsTaken) {
  ThreadPool threads(1);
  const std::string text = "\n \nheader\n" + std::string(200000, '\n') + "first\nbad\n";
  TextReader reader(text_input(text, "a.txt"), threads);
  EXPECT_EQ(reader.peek_line(), "header");
  EXPECT_EQ(reader.peek_line(), "header");
  EXPECT_EQ(refusal([&] { reader.refuse_line("no"); }), "a.txt:3: no");
  reader.skip_line();
  EXPECT_EQ(reader.peek_line(), "first");
  const auto read_on = [&] {
    reader.for_each_part([] { return LinePart{}; }, [](std::span<LinePart>) {});
  };
  EXPECT_EQ(refusal(read_on), "a.txt:200005: line: expected a good one, found 'bad'");
}

TEST(TextReader, NothingFollowsTheLastLine) {
  ThreadPool threads(1);
  TextReader reader(text_input("only"), threads);
  EXPECT_EQ(reader.peek_line(), "only");
  reader.skip_line();
  EXPECT_EQ(reader.peek_line(), std::nullopt);
  reader.skip_line();
  EXPECT_EQ(reader.peek_line(), std::nullopt);
}

}  // namespace
}  // namespace mcnb::text_reader_test
