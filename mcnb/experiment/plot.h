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
// Its script and data stay beside them, as .gp and .dat, for those who want to change the picture.
// Throws Error (kSystem) where gnuplot is missing or fails.
PlotFiles draw_plot(const std::filesystem::path& folder, const Experiment& experiment,
                    const std::vector<CellResult>& results, const std::string& name = "regret",
                    const std::string& of = "");

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
};
struct PlotFrame {
  std::string title;
  std::string x;  // what the axes show
  std::string y;
  bool log_x = false;
  bool named_points = false;  // every line is one point, named beside it
  std::vector<std::pair<std::string, double>> ticks = {};  // where x has marks; empty: anywhere
};
// Lines, or points with names, with bars of one deviation, likewise. Requires points in every line.
PlotFiles draw_lines(const std::filesystem::path& folder, const std::string& name,
                     const PlotFrame& frame, const std::vector<PlotLine>& lines);

}  // namespace mcnb
