#pragma once

#include <filesystem>
#include <optional>

#include "mcnb/evaluate/evaluation.h"
#include "mcnb/experiment/plot/plot_style.h"

namespace mcnb {

// Draws the estimates of all rounds with their bootstrap intervals, policy by policy, into
// <folder>/estimates, as every PictureKind. Throws Error (kSystem) if gnuplot is missing or fails.
PlotFiles draw_evaluation(const std::filesystem::path& folder, const Evaluation& evaluation);

// Draws how large the weights of each policy are, into <folder>/weight-shares. Nothing if no policy
// ever agrees with the log. Throws as draw_evaluation does.
std::optional<PlotFiles> draw_weights(const std::filesystem::path& folder,
                                      const Evaluation& evaluation);

}  // namespace mcnb
