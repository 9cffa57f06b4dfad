#include "mcnb/data/formats/text_fields.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "mcnb/base/random.h"

namespace mcnb::text_fields_test {
namespace {

using Fields = std::vector<std::string>;

Fields csv_fields(std::string_view line, char separator = ',') {
  std::vector<std::string_view> views;
  std::string scratch;
  split_csv(line, separator, views, scratch);
  return {views.begin(), views.end()};
}

template <class Act>
std::string row_error(Act&& act) {
  try {
    act();
  } catch (const RowError& error) {
    return error.message;
  }
  return "nothing was wrong";
}

TEST(Lines, EndInAnyWay) {
  std::string_view text = "a\nb\r\n\r\n\nlast";
  std::vector<std::string> lines;
  while (!text.empty()) {
    lines.emplace_back(take_line(text));
  }
  EXPECT_EQ(lines, (Fields{"a", "b", "", "", "last"}));
}

// Splits character by character.
Fields plain_split(const std::string& line, const std::string& separator) {
  Fields fields(1);
  for (std::size_t i = 0; i < line.size();) {
    if (line.compare(i, separator.size(), separator) == 0) {
      fields.emplace_back();
      i += separator.size();
    } else {
      fields.back() += line[i++];
    }
  }
  return fields;
}

TEST(Split, AgreesWithThePlainLoopForLinesOfAllLengths) {
  for (const std::string separator : {",", "::", "\t"}) {
    for (std::uint32_t i = 0; i < 4000; ++i) {
      Rng rng(1, Stream::kTest, i);
      std::string line(rng.below(45), ' ');
      for (char& c : line) {
        c = std::string_view("0159,:\t.\xac\xff")[rng.below(10)];
      }
      const Fields expected = plain_split(line, separator);
      std::string padded = line + std::string(64, ',');
      const std::string_view view(padded.data(), line.size());
      for (const bool fast : {false, true}) {
        std::array<std::string_view, 4> fields;
        const std::size_t count =
            fast ? split_padded(view, separator, fields) : split(view, separator, fields);
        ASSERT_EQ(count, expected.size()) << line;
        for (std::size_t k = 0; k < std::min<std::size_t>(count, 4); ++k) {
          ASSERT_EQ(fields[k], expected[k]) << line;
        }
      }
    }
  }
}

TEST(Split, AtBlanksPassesOverRunsOfThem) {
  std::array<std::string_view, 3> fields;
  EXPECT_EQ(split_at_blanks("  50 21\t \t77  ", fields), 3U);
  EXPECT_EQ(fields, (std::array<std::string_view, 3>{"50", "21", "77"}));
  EXPECT_EQ(split_at_blanks("1 2 3 4", fields), 4U);
  EXPECT_EQ(split_at_blanks("", fields), 0U);
}

TEST(Csv, FieldsMayBeQuoted) {
  EXPECT_EQ(csv_fields("a, b ,c"), (Fields{"a", "b", "c"}));
  EXPECT_EQ(csv_fields(R"("a,b","say ""hi""", " c ")"), (Fields{"a,b", "say \"hi\"", " c "}));
  EXPECT_EQ(csv_fields(""), Fields{""});
  EXPECT_EQ(csv_fields(",,"), (Fields{"", "", ""}));
  EXPECT_EQ(csv_fields("a;\"b;c\";", ';'), (Fields{"a", "b;c", ""}));
  EXPECT_EQ(csv_fields("in\"side,x"), (Fields{"in\"side", "x"}));
}

TEST(Csv, QuotesThatMakeNoSenseAreRefused) {
  EXPECT_EQ(row_error([] { csv_fields("1,\"open"); }),
            "expected the end of a quoted field, found the end of the line");
  EXPECT_EQ(row_error([] { csv_fields("\"a\"b,c"); }),
            "quoted field: expected a separator after it, found 'b'");
}

TEST(Numbers, AreThoseThatTheStandardLibraryReads) {
  for (const char* text : {"0",        "5",        "4.0",      "3.5",
                           ".5",       "5.",       "0.1",      "16777216",
                           "16777217", "1234567.", "0.000001", "3.4028235e38",
                           "1e-45",    "-8.2027",  "1e3",      "123456789.123456789",
                           "-0",       "00012",    "99999999", "0000.001"}) {
    const float value = parse_float(text);
    EXPECT_EQ(value, std::strtof(text, nullptr)) << text;
    EXPECT_EQ(std::signbit(value), text[0] == '-') << text;
  }
  for (std::uint32_t i = 0; i < 20000; ++i) {
    Rng rng(2, Stream::kTest, i);
    const std::string text =
        fmt::format("{:.{}f}", rng.uniform() * static_cast<double>(rng.below(2000)), rng.below(8));
    ASSERT_EQ(parse_float(text), std::strtof(text.c_str(), nullptr)) << text;
  }
}

TEST(Numbers, AreNothingElse) {
  for (const char* text : {"", ".", "-", "+1", " 1", "1 ", "1.2.3", "nan", "inf", "-inf", "0x10",
                           "1e", "1e39", "-1e300", "1,5", "five", "1e999999"}) {
    EXPECT_TRUE(std::isnan(parse_float(text))) << text;
  }
}

TEST(Numbers, TooSmallForAFloatAreZero) {
  EXPECT_EQ(parse_float("1e-60"), 0.0F);
  EXPECT_EQ(parse_double("1e-60"), 1e-60);
  EXPECT_TRUE(std::isnan(parse_double("1e400")));
}

TEST(Numbers, OutOfRangeAreRefusedByName) {
  EXPECT_EQ(parse_float_field("rating", "5", 0.5, 5), 5.0F);
  EXPECT_EQ(row_error([] { parse_float_field("rating", "5.5", 0.5, 5); }),
            "rating: expected a number from 0.5 to 5, found '5.5'");
  EXPECT_EQ(row_error([] { parse_float_field("rating", "", 0.5, 5); }),
            "rating: expected a number from 0.5 to 5, found nothing");
  EXPECT_EQ(row_error([] { parse_float_field("rating", "nan", -1e38, 1e38); }),
            "rating: expected a number, found 'nan'");
}

TEST(Text, IsKnownForUtf8) {
  for (const char* text : {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text : {"\xe9", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xf0\x8f\xbf\xbf", "\xff", "\x80", "\xe2\x82"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

TEST(Text, IsShownShortAndPrintable) {
  EXPECT_EQ(shown("a\tb\xff"), "'a\\x09b\\xff'");
  EXPECT_EQ(shown(std::string(100, 'x')), "'" + std::string(40, 'x') + "...'");
  EXPECT_EQ(shown("\xc3\xa9"), "'\xc3\xa9'");
}

}  // namespace
}  // namespace mcnb::text_fields_test
