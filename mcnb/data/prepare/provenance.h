#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// What prepared data is made from: source files, and a text that describes how.
struct Provenance {
  std::vector<std::filesystem::path> sources;
  std::string preparation;
};

// XXH3-64 of the contents of a file. Throws Error (kSystem) if it cannot be read.
std::uint64_t content_checksum(const std::filesystem::path& path);

// Writes the provenance at the start of a state, with the checksum of every source.
void write_provenance(StateWriter& writer, const Provenance& made_from);

// Throws Error (kInput), naming the difference, unless the state was made in the same way from
// files with the same names and contents, in any folder. A source is read only if its length is the
// recorded one and its time of change is not (or was too recent to be recorded).
void check_provenance(StateReader& reader, const Provenance& made_from);

}  // namespace mcnb
