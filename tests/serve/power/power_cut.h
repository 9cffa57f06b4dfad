#pragma once

#include <filesystem>

#include "mcnb/base/random.h"
#include "tests/serve/power/file_recorder.h"

namespace mcnb::power {

// Syncs that a disk can be made to ignore, to see whether a test notices that they are missing.
enum class Ignored { kNothing, kSyncsOfFiles, kSyncsOfFolders };

// Writes into an empty folder what a disk may hold when the power goes off before the operation
// number `cut` of a recording. Everything that was synced is there. Of the rest, every write,
// resize, new name, rename and removal is there or not, whatever came after it; a write may be
// there in part, by sectors of 512 bytes, or only as zeros that make its file longer. Renames
// happen whole or not at all. The sync of a file does not keep its name: that takes the sync of its
// folder.
void restore_after_cut(const Recording& recording, std::size_t cut, Rng& rng,
                       const std::filesystem::path& folder, Ignored ignored = Ignored::kNothing);

// Writes what the recording did: what the real folder must hold.
void restore_all(const Recording& recording, const std::filesystem::path& folder);

}  // namespace mcnb::power
