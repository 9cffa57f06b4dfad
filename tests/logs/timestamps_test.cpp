#include "mcnb/logs/timestamps.h"

#include <gtest/gtest.h>

#include <ctime>

#include "mcnb/base/random.h"

namespace mcnb::timestamps_test {
namespace {

TEST(Timestamps, ReadTheFormsThatLogsUse) {
  constexpr std::int64_t kSecond = 1'000'000;
  EXPECT_EQ(parse_time("1970-01-01"), 0);
  EXPECT_EQ(parse_time("1970-01-02T00:00:00Z"), 86'400 * kSecond);
  EXPECT_EQ(parse_time("2021-02-04T16:31:29.2460000Z"), 1'612'456'289 * kSecond + 246'000);
  EXPECT_EQ(parse_time("2019-11-24 00:03:13.442536+00:00"), 1'574'553'793 * kSecond + 442'536);
  EXPECT_EQ(parse_time("2019-11-24T09:03:13+09:00"), 1'574'553'793 * kSecond);
  EXPECT_EQ(parse_time("2019-11-23T19:03:13-0500"), 1'574'553'793 * kSecond);
  EXPECT_EQ(parse_time("2019-11-24T00:03"), 1'574'553'780 * kSecond);
}

TEST(Timestamps, RefuseOtherTexts) {
  for (const char* text :
       {"", "1969-12-31", "2021-02-30", "2021-13-01", "2021-02-04T", "2021-02-04T24:00", "now",
        "2021-02-04T16", "2021-02-04T16:31:29.", "2021-02-04T16:31:29X", "2021-02-04T16:31:29+1",
        "1612456289", "2021-02-04T16:31:61", "1970-01-01T00:00+01:00", "2021-02-04T16:31Z!"}) {
    EXPECT_FALSE(parse_time(text).has_value()) << text;
  }
}

// The C library is the oracle of the calendar.
TEST(Timestamps, AreWrittenAsTheyAreRead) {
  Rng rng(1, Stream::kTest);
  for (int i = 0; i < 1000; ++i) {
    const auto time = static_cast<std::int64_t>(rng.below(253'402'300'800ULL * 1'000'000));
    const std::string text = time_text(time);
    EXPECT_EQ(parse_time(text), time) << text;
    const std::time_t seconds = time / 1'000'000;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char expected[32];
    std::strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S", &parts);
    EXPECT_EQ(text.substr(0, 19), expected);
  }
}

}  // namespace
}  // namespace mcnb::timestamps_test
