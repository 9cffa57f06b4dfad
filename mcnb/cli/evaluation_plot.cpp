#include "mcnb/cli/evaluation_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/evaluate/estimate/estimators.h"
#include "mcnb/experiment/plot/gnuplot.h"
#include "mcnb/experiment/plot/line_plot.h"

namespace mcnb {
namespace {

// Estimators stand side by side around the place of their policy.
double place_of(std::size_t policy, std::size_t estimator, std::size_t estimators) {
  const double shift = (static_cast<double>(estimator) + 0.5) / static_cast<double>(estimators);
  return static_cast<double>(policy) + 0.7 * (shift - 0.5);
}

// The share of rounds with at least some weight falls in steps, to nothing after the largest.
std::vector<PlotPoint> steps_of(const std::vector<WeightShare>& shares, double least) {
  std::vector<PlotPoint> points;
  double from = least;
  for (const WeightShare& one : shares) {
    points.push_back({from, 100.0 * one.share});
    points.push_back({one.weight, 100.0 * one.share});
    from = one.weight;
  }
  points.push_back({from, 0.0});
  return points;
}

// The name without the folders of a file in it.
std::string short_name(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? name
                                    : name.substr(0, name.find('=') + 1) + name.substr(slash + 1);
}

// The names below the axis, slanted where they would not fit side by side.
std::string tick_texts(const SlotEvaluation& all, const PictureKind& kind) {
  constexpr std::size_t kMostCharacters = 100;  // in one line
  std::string ticks = "'logged' 0";
  std::size_t longest = 0;
  for (std::size_t k = 0; k < all.policies.size(); ++k) {
    const std::string name = short_name(all.policies[k].name);
    longest = std::max(longest, name.size());
    ticks += fmt::format(", {} {}", gnuplot_string(name, kind), k + 1);
  }
  const bool slanted = longest * (all.policies.size() + 1) > kMostCharacters;
  return fmt::format("set xtics{} ({}) noenhanced\n", slanted ? " rotate by -20" : "", ticks);
}

// The bootstrap says nothing about a bias, so estimators that have one show their error.
Interval shown_interval(const PolicyEstimate& estimate) {
  return is_unbiased(estimate.estimator)
             ? estimate.bootstrap
             : Interval{estimate.value - estimate.error, estimate.value + estimate.error};
}

}  // namespace

PlotFiles draw_evaluation(const std::filesystem::path& folder, const Evaluation& evaluation) {
  constexpr const char* kName = "estimates";
  const SlotEvaluation& all = evaluation.slots.front();
  std::string data =
      fmt::format("0 {} {} {}\n", all.logged, all.logged_interval.low, all.logged_interval.high);
  std::string plots = fmt::format(
      "'{0}.dat' index 0 using 1:2:3:4 with yerrorbars linecolor rgb '{1}' linewidth 2 "
      "pointtype {2} title 'logged'",
      kName, colour_of(0), mark_of(0));
  const std::size_t estimators = all.policies.empty() ? 0 : all.policies.front().estimates.size();
  for (std::size_t e = 0; e < estimators; ++e) {
    data += "\n\n";
    for (std::size_t k = 0; k < all.policies.size(); ++k) {
      const PolicyEstimate& estimate = all.policies[k].estimates[e];
      const Interval shown = shown_interval(estimate);
      data += fmt::format("{} {} {} {}\n", place_of(k + 1, e, estimators), estimate.value,
                          shown.low, shown.high);
    }
    plots += fmt::format(
        ", '{0}.dat' index {1} using 1:2:3:4 with yerrorbars linecolor rgb '{2}' linewidth 2 "
        "pointtype {3} title {4}",
        kName, e + 1, colour_of(e + 1), mark_of(e + 1),
        gnuplot_string(name_of(all.policies.front().estimates[e].estimator)));
  }
  std::string script = kPlotStyle;
  for (const PictureKind& kind : kPictureKinds) {
    script += start_picture(kName, kind) +
              title_command(
                  "Estimated values, with 95 % bootstrap intervals, or with errors if "
                  "they have a bias",
                  kind) +
              fmt::format(
                  "set ylabel 'mean reward'\n{}set bars small\n"
                  "set offsets 0.5, 0.5, graph 0.05, graph 0.05\nset key {} noenhanced\n",
                  tick_texts(all, kind), kLegendBelow) +
              "plot " + plots + "\n" + axes_commands(kind, false) + end_picture();
  }
  return draw_picture(folder, kName, data, script);
}

std::optional<PlotFiles> draw_weights(const std::filesystem::path& folder,
                                      const Evaluation& evaluation) {
  const std::vector<PolicyEvaluation>& policies = evaluation.slots.front().policies;
  double least = kNoLimit;
  for (const PolicyEvaluation& policy : policies) {
    if (!policy.weights.shares.empty()) {
      least = std::min(least, policy.weights.shares.front().weight);
    }
  }
  std::vector<PlotLine> lines;
  for (const PolicyEvaluation& policy : policies) {
    if (!policy.weights.shares.empty()) {
      lines.push_back({.label = policy.name, .points = steps_of(policy.weights.shares, least)});
    }
  }
  if (lines.empty()) {
    return std::nullopt;
  }
  return draw_lines(folder, "weight-shares",
                    {.title = "How many rounds have large weights",
                     .x = "weight: the policy's probability of the logged action over the log's",
                     .y = "% of the rounds have at least this weight",
                     .log_x = true},
                    lines);
}

}  // namespace mcnb
