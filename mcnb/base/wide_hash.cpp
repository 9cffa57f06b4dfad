#include "mcnb/base/wide_hash.h"

#include <xxhash.h>

namespace mcnb {

WideHash wide_hash(std::string_view bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

}  // namespace mcnb
