#pragma once

#include <cstdint>
#include <string_view>

namespace mcnb {

// XXH3-64 of the bytes, the one hash function of the project. Stored files hold its values
// (docs/FORMATS.md).
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0);

}  // namespace mcnb
