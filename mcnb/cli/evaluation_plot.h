#pragma once

#include <filesystem>

#include "mcnb/evaluate/evaluation.h"
#include "mcnb/experiment/plot/plot_style.h"

namespace mcnb {

// Draws the estimates of all rounds with their bootstrap intervals, policy by policy, into
// <folder>/estimates.png and .svg. Throws Error (kSystem) if gnuplot is missing or fails.
PlotFiles draw_evaluation(const std::filesystem::path& folder, const Evaluation& evaluation);

}  // namespace mcnb
