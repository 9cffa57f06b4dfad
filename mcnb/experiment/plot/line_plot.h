#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/experiment/plot/plot_style.h"

namespace mcnb {

struct PlotPoint {
  double x = 0.0;
  double y = 0.0;
  double deviation = 0.0;  // drawn as an error bar
};
struct PlotLine {
  std::string label;
  std::vector<PlotPoint> points;
  bool published = false;  // drawn dotted, without marks
  bool may_leave = false;  // may leave the frame, so that the other lines are not pressed together
  bool wide = false;       // the line that the others are compared with
};
// Labels of an axis, and where they are.
using PlotTicks = std::vector<std::pair<std::string, double>>;
struct PlotFrame {
  std::string title;
  std::string x;  // names of the axes
  std::string y;
  bool log_x = false;        // points with x > 0 then fill the whole width
  bool only_points = false;  // every line is one point with its own mark and colour
  PlotTicks ticks = {};      // of x; empty: gnuplot chooses
};

// Draws lines, or single points, with bars of one deviation, into <folder>/<name>.png and .svg; the
// script and the data stay beside them. Requires at least one point in every line. Throws Error
// (kSystem) if gnuplot is missing or fails.
PlotFiles draw_lines(const std::filesystem::path& folder, const std::string& name,
                     const PlotFrame& frame, const std::vector<PlotLine>& lines);

}  // namespace mcnb
