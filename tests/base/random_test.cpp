#include "mcnb/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace mcnb::random_test {
namespace {

// The numbers are fixed by their addresses, so no test here passes or fails by luck.
Rng rng_at(std::uint64_t index = 0) { return Rng(20'240'229, Stream::kTest, index); }

constexpr std::uint64_t kTwoTo32 = std::uint64_t{1} << 32;
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();

// Five standard deviations above the mean of a chi-square variable.
double chi_square_limit(std::size_t cells) {
  const auto freedom = static_cast<double>(cells - 1);
  return freedom + 5.0 * std::sqrt(2.0 * freedom);
}

// Expects all cells to be equally likely.
void expect_uniform(const std::vector<std::uint64_t>& counts) {
  const auto total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const double expected = static_cast<double>(total) / static_cast<double>(counts.size());
  ASSERT_GT(expected, 100.0) << "too few draws to say anything";
  double chi_square = 0.0;
  for (const std::uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    chi_square += difference * difference / expected;
  }
  EXPECT_LT(chi_square, chi_square_limit(counts.size()));
}

std::vector<std::uint64_t> counting(std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  return numbers;
}

std::vector<std::uint32_t> words(Rng rng, std::size_t count) {
  std::vector<std::uint32_t> words(count);
  std::ranges::generate(words, [&] { return rng.bits32(); });
  return words;
}

// Random123's file kat_vectors, lines "philox4x32 10".
TEST(Philox, GivesThePublishedAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox_4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox_4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, EveryPartOfTheAddressCounts) {
  std::vector<std::vector<std::uint32_t>> sequences;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, kTwoTo32}) {
    for (const Stream stream : {Stream::kTest, Stream::kWeights, Stream::kBenchmark}) {
      for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, kTwoTo32}) {
        for (const std::uint32_t second_index : {0U, 1U, 0xffffffffU}) {
          const Rng rng(seed, stream, index, second_index);
          sequences.push_back(words(rng, 8));
          EXPECT_EQ(words(Rng(seed, stream, index, second_index), 8), sequences.back());
        }
      }
    }
  }
  std::set<std::uint32_t> distinct;
  for (const auto& sequence : sequences) {
    distinct.insert(sequence.begin(), sequence.end());
  }
  // Not even a shifted copy of one another: of 648 words among 2^32, no two are expected equal.
  EXPECT_EQ(distinct.size(), 81U * 8U);
}

TEST(RngFamily, EveryMemberOfEveryFamilyIsASequenceOfItsOwn) {
  std::set<std::uint32_t> distinct;
  const auto add = [&](const std::vector<std::uint32_t>& sequence) {
    distinct.insert(sequence.begin(), sequence.end());
  };
  for (const std::uint64_t address : {0, 1}) {
    const RngFamily family(rng_at(address));
    const RngFamily again(rng_at(address));
    add(words(rng_at(address), 8));
    for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, kTwoTo32, kMost64}) {
      add(words(family.member(index), 8));
      EXPECT_EQ(words(family.member(index), 8), words(again.member(index), 8));
    }
  }
  EXPECT_EQ(distinct.size(), 2U * 5U * 8U);
}

TEST(RngFamily, NeighbouringMembersAreUncorrelated) {
  constexpr std::size_t kMembers = 40'000;
  const RngFamily family(rng_at());
  std::vector<std::uint64_t> counts(64);
  double previous = family.member(kMembers).uniform();
  for (std::size_t i = 0; i < kMembers; ++i) {
    const double here = family.member(i).uniform();
    ++counts[static_cast<std::size_t>(8 * previous) * 8 + static_cast<std::size_t>(8 * here)];
    previous = here;
  }
  expect_uniform(counts);
}

TEST(Rng, TheSequenceGoesOnPastOneBlock) {
  std::vector<std::uint32_t> drawn = words(rng_at(), 4096);
  std::ranges::sort(drawn);
  EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end());
}

TEST(Rng, NeighbouringAddressesAreUncorrelated) {
  constexpr std::size_t kAddresses = 40'000;
  std::vector<std::uint64_t> counts(64);  // cells of (first draw here, first draw next door)
  double previous = rng_at(kAddresses).uniform();
  for (std::size_t i = 0; i < kAddresses; ++i) {
    const double here = rng_at(i).uniform();
    ++counts[static_cast<std::size_t>(8 * previous) * 8 + static_cast<std::size_t>(8 * here)];
    previous = here;
  }
  expect_uniform(counts);
}

TEST(Rng, SixtyFourBitsAreTwoWordsTheHighOneFirst) {
  const std::vector<std::uint32_t> expected = words(rng_at(1), 5);
  Rng rng = rng_at(1);
  EXPECT_EQ(rng.bits32(), expected[0]);
  EXPECT_EQ(rng.bits64(), std::uint64_t{expected[1]} << 32 | expected[2]);
  EXPECT_EQ(rng.bits64(), std::uint64_t{expected[3]} << 32 | expected[4]);
}

TEST(Rng, EveryBitIsSetHalfTheTime) {
  constexpr int kDraws = 20'000;
  std::array<int, 64> set{};
  Rng rng = rng_at(2);
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t bits = rng.bits64();
    for (std::size_t bit = 0; bit < 64; ++bit) {
      set[bit] += static_cast<int>(bits >> bit & 1U);
    }
  }
  for (const int count : set) {
    EXPECT_NEAR(count, kDraws / 2, 5.0 * std::sqrt(kDraws / 4.0));
  }
}

TEST(Rng, UniformDrawsLieOnTheGridOfMultiplesOfTwoToMinus53) {
  constexpr int kDraws = 50'000;
  Rng rng = rng_at(3);
  std::vector<std::uint64_t> counts(100);
  std::vector<std::uint64_t> last_bits(8);
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    const double steps = u * 0x1p53;
    ASSERT_EQ(steps, std::floor(steps));
    ++counts[static_cast<std::size_t>(100.0 * u)];
    ++last_bits[static_cast<std::uint64_t>(steps) % 8];
  }
  expect_uniform(counts);
  expect_uniform(last_bits);  // the lowest bits are random too
}

TEST(Rng, UniformDrawsHaveTheRightMoments) {
  constexpr int kDraws = 100'000;
  Rng rng = rng_at(4);
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double centred = rng.uniform() - 0.5;
    sum += centred;
    squares += centred * centred;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 5.0 * std::sqrt(1.0 / 12.0 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 12.0, 5.0 * std::sqrt(1.0 / 180.0 / kDraws));
}

TEST(Rng, AChanceComesTrueAsOftenAsItSays) {
  constexpr int kDraws = 20'000;
  for (const double p : {0.0, 0.01, 0.3, 0.5, 0.99, 1.0}) {
    Rng rng = rng_at(5);
    int count = 0;
    for (int i = 0; i < kDraws; ++i) {
      count += rng.chance(p) ? 1 : 0;
    }
    EXPECT_NEAR(count, p * kDraws, 5.0 * std::sqrt(p * (1.0 - p) * kDraws)) << p;
  }
}

TEST(Rng, BelowGivesEveryValueOfASmallRangeEquallyOften) {
  for (const std::uint64_t bound : {1, 2, 3, 7, 10, 64, 100}) {
    Rng rng = rng_at(10);
    std::vector<std::uint64_t> counts(bound);
    for (int i = 0; i < 30'000; ++i) {
      const std::uint64_t drawn = rng.below(bound);
      ASSERT_LT(drawn, bound);
      ++counts[drawn];
    }
    if (bound > 1) {
      expect_uniform(counts);
    }
  }
}

// 2^32 and 2^64 leave a remainder of a third of these bounds: without rejection some values would
// come twice as often as others.
TEST(Rng, BelowIsUnbiasedWhereTheRemainderIsLarge) {
  for (const std::uint64_t third : {std::uint64_t{1} << 30, std::uint64_t{1} << 62}) {
    Rng rng = rng_at(11);
    std::vector<std::uint64_t> by_size(3);
    std::vector<std::uint64_t> by_remainder(3);
    for (int i = 0; i < 30'000; ++i) {
      const std::uint64_t drawn = rng.below(3 * third);
      ASSERT_LT(drawn, 3 * third);
      ++by_size[drawn / third];
      ++by_remainder[drawn % 3];
    }
    expect_uniform(by_size);
    expect_uniform(by_remainder);
  }
}

TEST(Rng, BelowCoversLargeRanges) {
  for (const std::uint64_t bound : {kTwoTo32 - 1, kTwoTo32, kTwoTo32 + 1, kTwoTo32 * 1000,
                                    (std::uint64_t{1} << 63) + 1, kMost64}) {
    Rng rng = rng_at(12);
    const std::uint64_t sixteenth = bound / 16 + 1;
    std::vector<std::uint64_t> high(16);
    std::vector<std::uint64_t> low(16);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t drawn = rng.below(bound);
      ASSERT_LT(drawn, bound);
      ++high[drawn / sixteenth];
      ++low[drawn % 16];
    }
    expect_uniform(high);
    expect_uniform(low);
  }
}

TEST(RngDeathTest, BelowZeroIsABug) {
  Rng rng = rng_at();
  EXPECT_EXIT(rng.below(0), testing::KilledBySignal(SIGABRT), "positive bound");
}

TEST(Rng, ShuffleKeepsTheValues) {
  Rng rng = rng_at(13);
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<std::uint64_t> values = counting(count);
    rng.shuffle(std::span(values));
    std::ranges::sort(values);
    EXPECT_EQ(values, counting(count));
  }
}

TEST(Rng, ShuffleGivesAllOrdersEquallyOften) {
  Rng rng = rng_at(14);
  std::map<std::array<char, 4>, std::uint64_t> counts;
  for (int i = 0; i < 24'000; ++i) {
    std::array<char, 4> letters{'a', 'b', 'c', 'd'};
    rng.shuffle(std::span<char>(letters));
    ++counts[letters];
  }
  ASSERT_EQ(counts.size(), 24U);
  std::vector<std::uint64_t> cells;
  for (const auto& [order, count] : counts) {
    cells.push_back(count);
  }
  expect_uniform(cells);
}

// Both ways of sampling, with a whole deck and with the displaced cards only, are a shuffle that
// stops early.
TEST(Rng, ASampleIsTheBeginningOfAShuffledDeck) {
  for (const std::size_t population : {1, 2, 5, 16, 17, 100, 1000}) {
    for (std::size_t count = 0; count <= population; count = count * 3 / 2 + 1) {
      Rng rng = rng_at(population);
      Rng twin = rng_at(population);
      std::vector<std::uint64_t> deck = counting(population);
      twin.shuffle(std::span(deck));
      deck.resize(count);
      EXPECT_EQ(rng.sample_without_replacement(population, count), deck)
          << count << " of " << population;
    }
  }
}

TEST(Rng, ASampleOfEverythingIsAPermutation) {
  for (std::size_t population = 0; population < 50; ++population) {
    Rng rng = rng_at(15);
    std::vector<std::uint64_t> sample = rng.sample_without_replacement(population, population);
    std::ranges::sort(sample);
    EXPECT_EQ(sample, counting(population));
  }
}

TEST(Rng, ASampleOfAHugePopulationIsDistinctAndSpreadOut) {
  for (const std::uint64_t population : {std::uint64_t{1} << 60, kMost64}) {
    Rng rng = rng_at(16);
    const std::vector<std::uint64_t> sample = rng.sample_without_replacement(population, 4000);
    std::vector<std::uint64_t> counts(16);
    for (const std::uint64_t chosen : sample) {
      ASSERT_LT(chosen, population);
      ++counts[chosen / (population / 16 + 1)];
    }
    EXPECT_EQ(std::set(sample.begin(), sample.end()).size(), 4000U);
    expect_uniform(counts);
  }
}

TEST(Rng, EveryOrderedPairIsSampledEquallyOften) {
  for (const std::size_t population : {5, 8, 9}) {  // two of up to eight use a whole deck
    Rng rng = rng_at(17);
    std::map<std::vector<std::uint64_t>, std::uint64_t> counts;
    for (int i = 0; i < 20'000; ++i) {
      ++counts[rng.sample_without_replacement(population, 2)];
    }
    ASSERT_EQ(counts.size(), population * (population - 1));
    std::vector<std::uint64_t> cells;
    for (const auto& [pair, count] : counts) {
      EXPECT_NE(pair[0], pair[1]);
      cells.push_back(count);
    }
    expect_uniform(cells);
  }
}

TEST(RngDeathTest, ASampleLargerThanThePopulationIsABug) {
  Rng rng = rng_at();
  EXPECT_EXIT(rng.sample_without_replacement(3, 4), testing::KilledBySignal(SIGABRT),
              "no larger than its population");
}

// These numbers are part of every saved state and every published result. If this test fails, the
// code has changed, not the truth: never adjust the numbers, restore the sequence.
TEST(Rng, TheSequenceOfAnAddressNeverChanges) {
  Rng rng(1, Stream::kTest);
  for (const std::uint32_t word :
       {0x4a8f7d9aU, 0x4eda0ebbU, 0x74a5e7f8U, 0xb604733dU, 0x184cff46U}) {
    EXPECT_EQ(rng.bits32(), word);
  }
  rng = Rng(0x123456789abcdef0, Stream::kReservoir, 0x0fedcba987654321, 42);
  EXPECT_EQ(rng.bits64(), 0x62f9b50a237fb533U);
  EXPECT_EQ(rng.bits64(), 0x9531307aa0ea23f8U);
  rng = Rng(7, Stream::kWeights, 3, 2);
  for (const double u : {0x1.d116da1d30036p-1, 0x1.ba265a00c8cccp-2, 0x1.2f4c861550a39p-1}) {
    EXPECT_EQ(rng.uniform(), u);
  }
  rng = Rng(7, Stream::kWeights, 3, 2);
  for (const double x : {0x1.54b1412eca654p+0, -0x1.5fe6a073faef4p-3, 0x1.de9020288bb67p-3}) {
    EXPECT_EQ(rng.normal(), x);
  }
  EXPECT_EQ(normal_quantile(1e-300), -0x1.286074064c26ep+5);
  rng = Rng(7, Stream::kPolicy);
  for (const std::uint64_t drawn : {209U, 896U, 661U, 121U}) {
    EXPECT_EQ(rng.below(1000), drawn);
  }
  EXPECT_EQ(rng.below(1'000'000'000'000'000'000), 429'674'367'126'425'724U);
  std::vector<std::uint64_t> deck = counting(8);
  Rng(7, Stream::kTrainingOrder).shuffle(std::span(deck));
  EXPECT_EQ(deck, (std::vector<std::uint64_t>{7, 3, 5, 1, 0, 4, 2, 6}));
  EXPECT_EQ(Rng(7, Stream::kMetaDraw).sample_without_replacement(1'000'000, 4),
            (std::vector<std::uint64_t>{990'199, 705'332, 447'985, 231'257}));
}

TEST(Stream, IsNeverRenumbered) {
  const std::vector<Stream> in_order{
      Stream::kTest,      Stream::kWeights,     Stream::kTrainingOrder, Stream::kMetaDraw,
      Stream::kReservoir, Stream::kEnvironment, Stream::kWorld,         Stream::kPolicy,
      Stream::kBenchmark, Stream::kMetaMembers, Stream::kNoise,         Stream::kRounds,
      Stream::kStartData, Stream::kPreClusters};
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(in_order[i]), i);
  }
  EXPECT_EQ(static_cast<int>(Stream::kLocbSeeds), 30);
}

}  // namespace
}  // namespace mcnb::random_test
