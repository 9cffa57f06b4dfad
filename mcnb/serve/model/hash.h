#pragma once

#include <cstdint>
#include <string_view>

namespace mcnb {

// XXH3-64: names of users and events, features, checksums. Part of every stored state.
std::uint64_t hash_text(std::string_view text, std::uint64_t seed);

}  // namespace mcnb
