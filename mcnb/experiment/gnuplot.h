#pragma once

#include <filesystem>
#include <string>

namespace mcnb {

// What all pictures share: quiet axes and a light grid.
inline constexpr const char* kPlotStyle =
    "set encoding utf8\n"
    "set border 3 linecolor rgb '#555555'\n"
    "set tics nomirror textcolor rgb '#222222'\n"
    "set grid linecolor rgb '#dddddd' linetype 1 linewidth 1\n";

// Lines of gnuplot that begin the picture <name>.<kind>, kind "png" or "svg", of "width,height".
std::string start_picture(const std::string& name, const std::string& kind,
                          const std::string& size);

// A string of gnuplot's language.
std::string gnuplot_string(const std::string& text);

// Runs a script that lies in the folder, inside it; nothing goes through a shell. Throws Error
// (kSystem) where gnuplot is missing or fails.
void run_gnuplot(const std::filesystem::path& folder, const std::string& script);

}  // namespace mcnb
