#include "mcnb/bandit/mcnb/walk_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace mcnb::walk_order_test {
namespace {

std::vector<std::uint32_t> whole_order(std::uint64_t seed, RoundId round, std::uint32_t count) {
  WalkOrder order(seed, round, count);
  std::vector<std::uint32_t> numbers(count);
  std::ranges::generate(numbers, [&] { return order.next(); });
  return numbers;
}

TEST(WalkOrder, HasEveryNumberOnce) {
  for (const std::uint32_t count :
       {1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 31U, 33U, 100U, 1000U, 1024U, 1025U, 100'000U}) {
    std::vector<std::uint32_t> numbers = whole_order(3, RoundId{count}, count);
    std::ranges::sort(numbers);
    std::vector<std::uint32_t> expected(count);
    std::iota(expected.begin(), expected.end(), 0U);
    EXPECT_EQ(numbers, expected) << count;
  }
}

TEST(WalkOrder, SkipsWhatIsMissingInAPermutationOfTheNextPowerOfTwo) {
  for (const std::uint32_t count : {5U, 6U, 7U, 8U}) {
    const WalkOrder order(3, RoundId{1}, count);
    ASSERT_EQ(order.domain(), 8U);
    std::vector<std::uint32_t> expected;
    for (std::uint64_t position = 0; position < 8; ++position) {
      if (order.permuted(position) < count) {
        expected.push_back(static_cast<std::uint32_t>(order.permuted(position)));
      }
    }
    EXPECT_EQ(whole_order(3, RoundId{1}, count), expected);
  }
  EXPECT_EQ(WalkOrder(3, RoundId{1}, 9).domain(), 16U);
  EXPECT_EQ(WalkOrder(3, RoundId{1}, std::uint64_t{1} << 32).domain(), std::uint64_t{1} << 32);
}

TEST(WalkOrder, DependsOnSeedAndRound) {
  std::set<std::vector<std::uint32_t>> orders;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    for (const std::uint64_t round : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40}) {
      orders.insert(whole_order(seed, RoundId{round}, 50));
    }
  }
  EXPECT_EQ(orders.size(), 9U);
  EXPECT_EQ(whole_order(1, RoundId{2}, 50), whole_order(1, RoundId{2}, 50));
}

// The first two numbers are any ordered pair, and the last is any number, equally often.
TEST(WalkOrder, OfFewNumbersIsUniform) {
  constexpr std::size_t kOrders = 40'000;
  for (const std::uint32_t count : {2U, 3U, 4U, 5U, 8U, 11U, 16U, 20U}) {
    std::vector<double> pairs(std::size_t{count} * count);
    std::vector<double> last(count);
    for (std::uint64_t round = 0; round < kOrders; ++round) {
      const std::vector<std::uint32_t> numbers = whole_order(5, RoundId{round}, count);
      ++pairs[numbers[0] * count + numbers[1]];
      ++last[numbers.back()];
    }
    const auto excess = [](const std::vector<double>& counts, std::size_t cells) {
      const double expected = static_cast<double>(kOrders) / static_cast<double>(cells);
      double chi_square = 0.0;
      for (const double found : counts) {
        chi_square += found == 0.0 ? 0.0 : (found - expected) * (found - expected) / expected;
      }
      const double degrees = static_cast<double>(cells) - 1.0;
      return (chi_square - degrees) / std::sqrt(2.0 * degrees);  // about standard normal
    };
    EXPECT_LT(excess(pairs, std::size_t{count} * (count - 1)), 4.0) << count;
    EXPECT_LT(excess(last, count), 4.0) << count;
    EXPECT_EQ(std::ranges::count(pairs, 0.0), count) << "every pair of different numbers comes";
  }
}

}  // namespace
}  // namespace mcnb::walk_order_test
