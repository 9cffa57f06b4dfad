#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mcnb {

// Reads a time of ISO 8601, such as "2021-02-04T16:31:29.2460000Z", "2019-11-24 00:03:13+09:00" or
// "2026-01-31", as microseconds since 1970; further digits are dropped. A time without a zone is in
// UTC. nullopt for any other text, and for years before 1970 or after 9999.
std::optional<std::int64_t> parse_time(std::string_view text);

// "2021-02-04T16:31:29.246000Z". Requires what parse_time could have returned.
std::string time_text(std::int64_t microseconds);

}  // namespace mcnb
