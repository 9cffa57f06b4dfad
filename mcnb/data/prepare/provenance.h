#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// What prepared data is made from: these files, in this way.
struct Provenance {
  std::vector<std::filesystem::path> sources;
  std::string recipe;
};

// Of what a file holds. Throws Error (kSystem) where it cannot be read.
std::uint64_t content_checksum(const std::filesystem::path& path);

// Writes it at the head of a state, with the checksum of every source.
void write_provenance(StateWriter& writer, const Provenance& made_from);

// Throws Error (kInput) that names what is different unless the state was made from the same files,
// wherever they are now, in the same way. A source is read to its end only where its length is the
// one written down and its time of change is not (or was too fresh, then, to tell).
void check_provenance(StateReader& reader, const Provenance& made_from);

}  // namespace mcnb
