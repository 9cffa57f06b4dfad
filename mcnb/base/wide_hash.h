#pragma once

#include <cstdint>
#include <string_view>

namespace mcnb {

// XXH3-128 of some bytes, where equal hashes are taken to mean equal bytes.
struct WideHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};
WideHash wide_hash(std::string_view bytes, std::uint64_t seed);

}  // namespace mcnb
