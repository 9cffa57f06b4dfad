#pragma once

#include <filesystem>
#include <vector>

#include "mcnb/experiment/experiment.h"

namespace mcnb {

struct PlotFiles {
  std::filesystem::path png;
  std::filesystem::path svg;
};

// Draws the regret curves (mean over the seeds, with bands of one standard deviation) and, where
// policies cluster, how good their clusters were, into <folder>/regret.png and .svg, by gnuplot.
// Its script and data stay beside them for those who want to change the picture. Throws Error
// (kSystem) where gnuplot is missing or fails.
PlotFiles draw_plot(const std::filesystem::path& folder, const Experiment& experiment,
                    const std::vector<CellResult>& results);

}  // namespace mcnb
