#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace mcnb {

struct PlotFiles {
  std::filesystem::path png;
  std::filesystem::path svg;
};

// How the lines of all pictures look, by a number for each line: its look.
std::string colour_of(std::size_t look);
std::string dashes_of(std::size_t look);
std::size_t mark_of(std::size_t look);  // gnuplot's pointtype

// The looks of lines, by their labels. A policy has one look in all pictures unless an earlier line
// took it. Labels that name no policy get the looks that are left.
std::vector<std::size_t> looks_of(const std::vector<std::string>& labels);

inline constexpr double kLineWidth = 2.5;
inline constexpr double kFirstLineWidth = 4.0;  // of the line that others are compared with
// Where a legend below the picture goes: clear of the axis' name.
inline constexpr const char* kLegendBelow = "below center horizontal height 1";
// The y axis ends this factor above the highest line that must stay inside the frame.
inline constexpr double kHeadroom = 1.05;

// Writes <folder>/<name>.dat and .gp, and lets gnuplot draw <name>.png and .svg from them. Throws
// Error (kSystem) if gnuplot is missing or fails.
PlotFiles draw_picture(const std::filesystem::path& folder, const std::string& name,
                       const std::string& data, const std::string& script);

}  // namespace mcnb
