#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/experiment/report/section.h"

namespace mcnb {

// Facts about how the results were made, by their names: "version", "machine", "command", ...
using MadeBy = std::vector<std::pair<std::string, std::string>>;

// One HTML page with all pictures inside it: tables, pictures, notes, and how they were made. The
// pictures of a section are read from folder/<section's name>. Throws Error (kSystem) if one cannot
// be read.
std::string html_page(const std::string& title, const std::vector<Section>& sections,
                      const std::filesystem::path& folder, const MadeBy& made_by);

}  // namespace mcnb
