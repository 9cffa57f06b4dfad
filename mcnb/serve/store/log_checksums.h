#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "mcnb/serve/store/storage.h"

namespace mcnb {

// SQLite stores signed numbers.
inline std::int64_t to_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }
inline std::uint64_t to_unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// The checksum of every row of the database (docs/FORMATS.md): XXH3-64 of `bytes`, seeded by that
// of the numbers.
std::uint64_t checksum_of_numbers(std::initializer_list<std::uint64_t> numbers,
                                  std::string_view bytes = {});
std::uint64_t checksum_of(const LogRow& row);
std::uint64_t checksum_of(const EventId& id);

}  // namespace mcnb
