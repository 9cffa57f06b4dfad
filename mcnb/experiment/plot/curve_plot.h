#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/experiment/plot/plot_style.h"
#include "mcnb/experiment/run/experiment.h"

namespace mcnb {

// Draws the regret curves (mean over the seeds, with bands of one standard deviation) into
// <folder>/<name>.png and .svg by gnuplot; if policies cluster, a second panel shows how good their
// clusters were. `about` is added to the title. The line of the first policy is wider. `random`,
// and a few policies far above the rest, may leave the frame; the legend then has their final
// regret. Policies with equal curves share a line. Policies without results are left out and do not
// change the look of the others; at least one policy needs results. The script and the data stay
// beside the picture, as .gp and .dat, for people who want to change it. Throws Error (kSystem) if
// gnuplot is missing or fails.
PlotFiles draw_regrets(const std::filesystem::path& folder, const Experiment& experiment,
                       const std::vector<CellResult>& results, const std::string& name = "regret",
                       const std::string& about = "");

// Draws how much more regret than the first policy the others have: means of the differences seed
// by seed, with their 95 % intervals. It tells curves apart that lie close together. Otherwise like
// draw_regrets. Requires results of the first policy, and results with equal seeds of all others.
PlotFiles draw_differences(const std::filesystem::path& folder, const Experiment& experiment,
                           const std::vector<CellResult>& results, const std::string& name,
                           const std::string& about);

}  // namespace mcnb
