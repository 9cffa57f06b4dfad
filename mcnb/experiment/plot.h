#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/experiment/experiment.h"

namespace mcnb {

struct PlotFiles {
  std::filesystem::path png;
  std::filesystem::path svg;
};

// Draws the regret curves (mean over the seeds, with bands of one standard deviation) and, where
// policies cluster, how good their clusters were, into <folder>/<name>.png and .svg, by gnuplot.
// The line of the first policy is wider. `random`, and a few others that lie far above the rest,
// may leave the frame, and then have their ends in the legend. Policies with equal curves share a
// line. Policies without results are left out, and change nothing about the looks of the others; at
// least one has results.
// Its script and data stay beside them, as .gp and .dat, for those who want to change the picture.
// Throws Error (kSystem) where gnuplot is missing or fails.
PlotFiles draw_plot(const std::filesystem::path& folder, const Experiment& experiment,
                    const std::vector<CellResult>& results, const std::string& name = "regret",
                    const std::string& of = "");

// How much more regret than the first policy the others have, likewise: means of the differences
// seed by seed, with their 95 % intervals. Where curves lie close together this tells them apart.
// Requires results of the first policy, and of all with the same seeds.
PlotFiles draw_differences(const std::filesystem::path& folder, const Experiment& experiment,
                           const std::vector<CellResult>& results, const std::string& name,
                           const std::string& of);

// A point of a picture: where, how high, and by how much that scatters.
struct PlotPoint {
  double x = 0.0;
  double y = 0.0;
  double deviation = 0.0;
};
struct PlotLine {
  std::string label;
  std::vector<PlotPoint> points;
  bool published = false;  // drawn dotted, without marks
  bool may_leave = false;  // the frame, rather than press the others together
  bool wide = false;       // the line that the others are held against
};
// Where an axis has marks, and what is written there.
using PlotTicks = std::vector<std::pair<std::string, double>>;
struct PlotFrame {
  std::string title;
  std::string x;  // what the axes show
  std::string y;
  bool log_x = false;        // the points with x > 0 then fill the whole width
  bool only_points = false;  // every line is one point, told apart by mark and colour
  PlotTicks ticks = {};      // of x; empty: anywhere
};
// Lines, or single points, with bars of one deviation, likewise. Requires points in every line.
PlotFiles draw_lines(const std::filesystem::path& folder, const std::string& name,
                     const PlotFrame& frame, const std::vector<PlotLine>& lines);

}  // namespace mcnb
