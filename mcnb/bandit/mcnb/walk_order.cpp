#include "mcnb/bandit/mcnb/walk_order.h"

#include <algorithm>
#include <bit>

#include "mcnb/base/check.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

// The final mixing of MurmurHash3: every bit of the input changes half of the bits of the output.
std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6BU;
  x ^= x >> 13;
  x *= 0xC2B2AE35U;
  return x ^ x >> 16;
}

std::uint32_t low_bits(unsigned bits) { return static_cast<std::uint32_t>((1ULL << bits) - 1); }

}  // namespace

WalkOrder::WalkOrder(std::uint64_t seed, RoundId round, std::uint64_t count) : count_(count) {
  check(count >= 1 && count <= std::uint64_t{1} << 32, "an order has 1 to 2^32 numbers");
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;
  rounds_ = 2 * (3 + std::size_t{17} / std::max(high_bits_, 1U));
  Rng rng(seed, Stream::kWalkOrder, index(round));
  std::generate_n(keys_.begin(), rounds_, [&] { return rng.bits32(); });
}

std::uint64_t WalkOrder::permuted(std::uint64_t position) const {
  const std::uint32_t low_mask = low_bits(low_bits_);
  const std::uint32_t high_mask = low_bits(high_bits_);
  auto low = static_cast<std::uint32_t>(position) & low_mask;
  auto high = static_cast<std::uint32_t>(position >> low_bits_);
  for (std::size_t round = 0; round < rounds_; round += 2) {
    low ^= mixed(high ^ keys_[round]) & low_mask;
    high ^= mixed(low ^ keys_[round + 1]) & high_mask;
  }
  return std::uint64_t{high} << low_bits_ | low;
}

}  // namespace mcnb
