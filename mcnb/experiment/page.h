#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/experiment/figures.h"

namespace mcnb {

// How results came about: "version", "machine", "command", ...
using MadeBy = std::vector<std::pair<std::string, std::string>>;

// One self-contained HTML page: tables, pictures inside it, notes, and how it was made. The
// pictures of a section lie in folder/<section's name>. Throws Error (kSystem) where one cannot be
// read.
std::string html_page(const std::string& title, const std::vector<Section>& sections,
                      const std::filesystem::path& folder, const MadeBy& made_by);

}  // namespace mcnb
