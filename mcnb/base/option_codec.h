#pragma once

#include <cstdint>
#include <string>

#include "mcnb/base/options.h"

namespace mcnb {

// Options as bytes: their count, then the name and the text of each, ordered by name. `Writer` and
// `Reader` decide how wide counts are: 8 bytes in StateWriter, 4 in the service's ByteWriter.

template <class Writer>
void write_options(Writer& writer, const OptionValues& values) {
  writer.write_count(values.size());
  for (const auto& [name, text] : values) {
    writer.write_string(name);
    writer.write_string(text);
  }
}

// Fails as `reader` does for bytes that write_options would not have written.
template <class Reader>
OptionValues read_options(Reader& reader) {
  constexpr std::uint64_t kMostOptions = 1 << 12;
  constexpr std::uint64_t kLongestText = 1 << 16;
  const std::uint64_t count = reader.read_count(kMostOptions);
  OptionValues values;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = reader.read_string(kLongestText);
    values[std::move(name)] = reader.read_string(kLongestText);
  }
  return values;
}

}  // namespace mcnb
