#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mcnb/base/ids.h"

namespace mcnb {

// A pseudo-random order of 0 .. count - 1, named by a seed and a round, that is computed number by
// number and takes no memory: a Feistel network permutes the numbers below the next power of two,
// and those that are not below `count` are skipped.
class WalkOrder {
 public:
  // Requires 1 <= count <= 2^32.
  WalkOrder(std::uint64_t seed, RoundId round, std::uint64_t count);

  // The next number; every number comes once. Requires that fewer than `count` were asked for.
  std::uint32_t next() {
    std::uint64_t number = permuted(position_++);
    while (number >= count_) {
      number = permuted(position_++);
    }
    return static_cast<std::uint32_t>(number);
  }

  // How many numbers are permuted: the smallest power of two that is at least `count`.
  std::uint64_t domain() const { return std::uint64_t{1} << (low_bits_ + high_bits_); }
  // The permutation itself. Requires position < domain().
  std::uint64_t permuted(std::uint64_t position) const;

 private:
  // The fewer bits a half has, the more slowly two numbers part: short orders take more rounds.
  static constexpr std::size_t kMostRounds = 40;

  std::uint64_t count_;
  std::uint64_t position_ = 0;
  unsigned low_bits_;
  unsigned high_bits_;
  std::size_t rounds_;
  std::array<std::uint32_t, kMostRounds> keys_;
};

}  // namespace mcnb
