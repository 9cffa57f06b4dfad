#pragma once

#include <cstdint>

#include "mcnb/bandit/mcnb/device/lanes.h"

// The random numbers of base/random.h, for kernels. The tests hold them against Rng.
namespace mcnb::device {

struct RandomWords {
  std::uint32_t word[4];
};

MCNB_ON_DEVICE RandomWords philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                  std::uint32_t c3, std::uint32_t k0, std::uint32_t k1) {
  MCNB_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t right = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(right >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(right);
    c2 = static_cast<std::uint32_t>(left >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(left);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// RngFamily::member(member).below(bound), for the family of this key.
MCNB_ON_DEVICE std::uint32_t below(const std::uint32_t (&key)[2], std::uint32_t member,
                                   std::uint32_t bound) {
  RandomWords words = philox(0, 0, member, 0, key[0], key[1]);
  std::uint64_t product = std::uint64_t{words.word[0]} * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t threshold = (0U - bound) % bound;
    for (std::uint32_t i = 1; static_cast<std::uint32_t>(product) < threshold; ++i) {
      if (i % 4 == 0) {
        words = philox(i / 4, 0, member, 0, key[0], key[1]);
      }
      product = std::uint64_t{words.word[i % 4]} * bound;
    }
  }
  return static_cast<std::uint32_t>(product >> 32);
}

}  // namespace mcnb::device
