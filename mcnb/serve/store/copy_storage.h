#pragma once

#include <cstdint>

#include "mcnb/serve/store/storage.h"

namespace mcnb {

// What was copied.
struct CopyReport {
  std::uint64_t models = 0;
  std::uint64_t rows = 0;
  std::uint64_t ids = 0;
  std::uint64_t snapshots = 0;
};

// Copies a service from one store into another, empty one: models, log, ids and snapshots. Then
// reads both again and compares every bit. What is left of removed models stays behind. Throws
// Error: kUsage if the target is not empty, kCorrupt if the copy differs, and what the stores
// throw.
CopyReport copy_storage(Storage& from, Storage& to);

}  // namespace mcnb
