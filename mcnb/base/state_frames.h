#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mcnb/base/hash.h"

// The frames of saved states (docs/FORMATS.md), for what reads and writes them.
namespace mcnb::state_frames {

inline constexpr char kMagic[8] = {'M', 'C', 'N', 'B', 's', 't', 'a', '1'};
inline constexpr std::size_t kMostBytes = std::size_t{1} << 20;

// Stands before the bytes of each frame.
struct Head {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

// `number`: of the frame, from 0. It is the seed, so that exchanged or repeated frames fail the
// check too.
inline std::uint64_t checksum(std::string_view frame, std::uint64_t number) {
  return hash_bytes(frame, number + 1);
}

}  // namespace mcnb::state_frames
