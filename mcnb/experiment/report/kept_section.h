#pragma once

#include <filesystem>
#include <vector>

#include "mcnb/experiment/report/section.h"

namespace mcnb {

// Sections that no plan makes, such as evaluations of logs. They are kept beside their pictures, as
// FOLDER/NAME/section.json, and stand on every later page of FOLDER.

// Writes name, title, notes, tables and pictures; the files of tables and pictures are there.
void keep_section(const std::filesystem::path& folder, const Section& section);

// All that are kept, by name. Throws Error (kCorrupt), which names the file, for a damaged one.
std::vector<Section> kept_sections(const std::filesystem::path& folder);

}  // namespace mcnb
