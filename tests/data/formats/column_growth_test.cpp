#include "mcnb/data/formats/column_growth.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace mcnb::growth_test {
namespace {

constexpr std::size_t kExpected = 1000;

// How often a column moves while it grows, three bytes at a time.
std::size_t moves(std::size_t size) {
  constexpr std::array<std::uint8_t, 3> kBytes = {1, 2, 3};
  std::vector<float> column;
  std::size_t count = 0;
  for (std::size_t room = 0; column.size() < size; room = column.capacity()) {
    append(column, std::span<const std::uint8_t>(kBytes), kExpected);
    count += column.capacity() == room ? 0 : 1;
  }
  return count;
}

TEST(ColumnGrowth, AColumnOfTheExpectedLengthTakesNoMoreRoomThanThat) {
  std::vector<float> column;
  append(column, std::span<const float>(std::vector<float>(kExpected, 1.0F)), kExpected);
  EXPECT_EQ(column.capacity(), kExpected);
}

TEST(ColumnGrowth, AColumnThatOutgrowsWhatWasExpectedSeldomMoves) {
  EXPECT_LE(moves(kExpected), 4U);
  EXPECT_LE(moves(1000 * kExpected), 4U + 18U) << "log 1000 to the base 1.5 is 17.04";
}

TEST(ColumnGrowth, AGuessThatIsAlwaysTooSmallMovesAColumnSeldomToo) {
  for (const double guess : {0.0, 0.5, 1.0}) {
    std::vector<float> column;
    std::size_t count = 0;
    for (int i = 0; i < 100'000; ++i) {
      const std::size_t room = column.capacity();
      make_room(column, 1, guess);
      column.push_back(1.0F);
      count += column.capacity() == room ? 0 : 1;
    }
    EXPECT_LE(count, 32U) << guess;
  }
}

}  // namespace
}  // namespace mcnb::growth_test
