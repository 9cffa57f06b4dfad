#include "mcnb/base/piece_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb::piece_cutter_test {
namespace {

std::string random_bytes(std::size_t count, std::uint64_t seed) {
  Rng rng(seed, Stream::kTest);
  std::string bytes(count, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(rng.below(256));
  }
  return bytes;
}

// `step`: how many bytes come at once.
std::vector<std::string> pieces_of(const std::string& bytes, std::size_t step) {
  std::vector<std::string> pieces;
  PieceCutter cutter([&](std::string_view piece) { pieces.emplace_back(piece); });
  for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
    cutter.add(std::string_view(bytes).substr(begin, step));
  }
  cutter.finish();
  return pieces;
}

// The bytes of pieces that the other stream does not have.
std::size_t bytes_beyond(const std::vector<std::string>& pieces,
                         const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  std::size_t bytes = 0;
  for (const std::string& piece : pieces) {
    bytes += known.contains(piece) ? 0 : piece.size();
  }
  return bytes;
}

TEST(PieceCutter, ThePiecesTogetherAreTheStream) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, PieceCutter::kLeast,
                                 PieceCutter::kMost, std::size_t{300'001}}) {
    const std::string bytes = random_bytes(size, size);
    std::string joined;
    const std::vector<std::string> pieces = pieces_of(bytes, 1000);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      joined += pieces[i];
      EXPECT_LE(pieces[i].size(), PieceCutter::kMost);
      EXPECT_TRUE(pieces[i].size() >= PieceCutter::kLeast || i + 1 == pieces.size());
    }
    EXPECT_EQ(joined, bytes);
  }
}

TEST(PieceCutter, ThePiecesDoNotDependOnHowTheStreamComes) {
  const std::string bytes = random_bytes(400'000, 3) + std::string(100'000, '\0');
  const std::vector<std::string> whole = pieces_of(bytes, bytes.size());
  for (const std::size_t step : {1U, 17U, 4096U, 65'536U}) {
    EXPECT_EQ(pieces_of(bytes, step), whole);
  }
}

TEST(PieceCutter, APieceHasTheUsualLengthOnAverage) {
  const std::string bytes = random_bytes(4'000'000, 5);
  const double usual =
      static_cast<double>(bytes.size()) / static_cast<double>(pieces_of(bytes, 65'536).size());
  EXPECT_NEAR(usual, static_cast<double>(PieceCutter::kUsual), 800.0);
}

TEST(PieceCutter, OnlyPiecesNearAChangeDiffer) {
  const std::string bytes = random_bytes(2'000'000, 7);
  const std::vector<std::string> before = pieces_of(bytes, 65'536);
  std::string changed = bytes;
  changed[1'000'000] = static_cast<char>(changed[1'000'000] ^ 1);
  std::string longer = bytes;
  longer.insert(700'000, "four");
  std::string shorter = bytes;
  shorter.erase(1'300'000, 1);
  for (const std::string& other : {changed, longer, shorter}) {
    const std::size_t differing = bytes_beyond(pieces_of(other, 65'536), before);
    EXPECT_GT(differing, 0U);
    EXPECT_LT(differing, 6 * PieceCutter::kMost);
  }
}

TEST(PieceCutter, EqualBytesGiveEqualPieces) {
  const std::vector<std::string> pieces = pieces_of(std::string(3'000'000, '\0'), 65'536);
  EXPECT_LE(std::set<std::string>(pieces.begin(), pieces.end()).size(), 2U);
}

}  // namespace
}  // namespace mcnb::piece_cutter_test
