#pragma once

#include <filesystem>
#include <string>

namespace mcnb {

// Commands that all pictures begin with: quiet axes and a light grid.
inline constexpr const char* kPlotStyle =
    "set encoding utf8\n"
    "set border 3 linecolor rgb '#555555'\n"
    "set tics nomirror textcolor rgb '#222222'\n"
    "set grid linecolor rgb '#dddddd' linetype 1 linewidth 1\n";

// Commands that begin the picture <name>.<kind>. The kind is "png" or "svg", the size
// "width,height" in pixels.
std::string start_picture(const std::string& name, const std::string& kind,
                          const std::string& size);

// The text as a quoted string of gnuplot's language.
std::string gnuplot_string(const std::string& text);

// Runs a script of the folder, with that folder as the current one and without a shell. Throws
// Error (kSystem) if gnuplot is missing or fails.
void run_gnuplot(const std::filesystem::path& folder, const std::string& script);

}  // namespace mcnb
