#include "mcnb/experiment/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "mcnb/base/table.h"
#include "mcnb/experiment/gnuplot.h"
#include "mcnb/experiment/report.h"
#include "mcnb/experiment/statistics.h"

namespace mcnb {
namespace {

// Okabe and Ito's colours, which colour-blind people can tell apart, black last.
constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#B8A800", "#000000"};
constexpr std::array<const char*, 3> kMeasures = {"precision", "recall", "adjusted Rand index"};
constexpr std::array<const char*, 3> kDashes = {"(12,6)", "(3,5)", "solid"};
constexpr std::array<const char*, 3> kMeasureColours = {"#0072B2", "#E69F00", "#009E73"};
constexpr std::size_t kAdjustedRand = 2;
constexpr std::size_t kSmoothing = 10;  // measurements in a moving mean
constexpr std::size_t kMostInside = 8;  // lines of a legend that do not hide the curves
constexpr const char* kScript = "plot.gp";
constexpr const char* kData = "plot.dat";

// Round, mean, mean less deviation, mean plus deviation.
std::string regret_block(const std::vector<CellResult>& results) {
  std::string text = "0 0 0 0\n";
  for (std::size_t i = 0; i < results.front().curve.size(); ++i) {
    std::vector<double> regrets;
    for (const CellResult& result : results) {
      regrets.push_back(result.curve[i].regret);
    }
    const double centre = mean(regrets);
    const double deviation = standard_deviation(regrets).value_or(0.0);
    text += fmt::format("{} {} {} {}\n", results.front().curve[i].round, centre, centre - deviation,
                        centre + deviation);
  }
  return text + "\n\n";
}

// Round, precision, recall, adjusted Rand index: means over seeds and the last few measurements.
std::string quality_block(const std::vector<CellResult>& results) {
  std::string text;
  for (std::size_t i = 0; i < results.front().quality.size(); ++i) {
    std::array<std::vector<double>, 3> values;
    for (const CellResult& result : results) {
      for (std::size_t j = i + 1 - std::min(i + 1, kSmoothing); j <= i; ++j) {
        const ClusterQuality& quality = result.quality[j].quality;
        values[0].push_back(quality.precision);
        values[1].push_back(quality.recall);
        values[2].push_back(quality.adjusted_rand);
      }
    }
    text += fmt::format("{} {} {} {}\n", results.front().quality[i].round, mean(values[0]),
                        mean(values[1]), mean(values[2]));
  }
  return text + "\n\n";
}

// What a policy looks like, and where its numbers are.
struct Line {
  std::string label;
  std::string style;  // colour and dashes
  std::string colour;
  std::size_t block;  // of kData: regret; the next one is quality
  bool clusters;
};

std::string regret_panel(const std::vector<Line>& lines, std::uint64_t seeds) {
  std::string plots;
  for (const Line& line : lines) {
    plots += seeds > 1 ? fmt::format(
                             "'{}' index {} using 1:3:4 with filledcurves fillcolor "
                             "rgb '{}' fillstyle transparent solid 0.16 noborder notitle, ",
                             kData, line.block, line.colour)
                       : "";
  }
  for (const Line& line : lines) {
    plots += fmt::format("'{}' index {} using 1:2 with lines linewidth 2.5 {} title {}{}", kData,
                         line.block, line.style, gnuplot_string(line.label),
                         &line == &lines.back() ? "\n" : ", ");
  }
  const std::string over =
      seeds > 1 ? fmt::format("mean of {} seeds ± deviation", seeds) : "1 seed";
  return fmt::format(
      "set title 'Cumulative regret ({})'\n"
      "set ylabel 'regret'\n"
      "set yrange [0:*]\n"
      "set key {} Left reverse noenhanced opaque samplen 2.5 spacing 1.15\n"
      "plot {}",
      over, lines.size() <= kMostInside ? "top left" : "below center horizontal", plots);
}

// Of one policy all measures; of several the adjusted Rand index, which unites the others.
std::string quality_panel(const std::vector<Line>& lines) {
  const bool alone = std::ranges::count_if(lines, &Line::clusters) == 1;
  std::string plots;
  std::string whose;
  for (const Line& line : lines) {
    if (!line.clusters) {
      continue;
    }
    whose = line.label;
    for (std::size_t measure = alone ? 0 : kAdjustedRand; measure < kMeasures.size(); ++measure) {
      const std::string style = alone ? fmt::format("linecolor rgb '{}' dashtype {}",
                                                    kMeasureColours[measure], kDashes[measure])
                                      : line.style;
      plots += fmt::format("{}'{}' index {} using 1:{} with lines linewidth 2.5 {} title {}",
                           plots.empty() ? "" : ", ", kData, line.block + 1, measure + 2, style,
                           gnuplot_string(alone ? kMeasures[measure] : line.label));
    }
  }
  return fmt::format(
      "set title {} noenhanced\n"
      "set ylabel '{}'\n"
      "set yrange [*<-0.04:1.02]\n"
      "set autoscale yfixmin\n"
      "set key below center horizontal Left reverse noenhanced samplen 3.5 spacing 1.15\n"
      "plot {}\n",
      gnuplot_string("Found clusters against the users that truly agree" +
                     (alone ? ": " + whose : std::string())),
      alone ? "share" : kMeasures[kAdjustedRand], plots);
}

std::string script(const std::vector<Line>& lines, const ExperimentOptions& options) {
  const bool clusters = std::ranges::any_of(lines, &Line::clusters);
  std::string text = std::string(kPlotStyle) +
                     "set xlabel 'round'\n"
                     "set format '%.0f'\n"
                     "set lmargin 11\n"
                     "set rmargin 4\n";
  text += fmt::format("set xrange [0:{}]\n", options.rounds);
  const char* size = clusters ? "1600,680" : "1400,760";
  for (const char* kind : {"png", "svg"}) {
    text += start_picture("regret", kind, size) +
            fmt::format("set multiplot layout 1,{}\n", clusters ? 2 : 1);
    text += "set format y '%g'\n" + regret_panel(lines, options.seeds);
    text += clusters ? "set format y '%.1f'\n" + quality_panel(lines) : "";
    text += "unset multiplot\nunset output\n";
  }
  return text;
}

}  // namespace

PlotFiles draw_plot(const std::filesystem::path& folder, const Experiment& experiment,
                    const std::vector<CellResult>& results) {
  std::string data;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < experiment.policies.size(); ++i) {
    const std::string& label = experiment.policies[i].label;
    const std::vector<CellResult> own = results_of(results, label);
    const std::string colour = kColours[i % kColours.size()];
    const std::string dashes = i < kColours.size() ? "solid" : "(10,5)";
    const bool clusters = !own.front().quality.empty();
    lines.push_back({label, fmt::format("linecolor rgb '{}' dashtype {}", colour, dashes), colour,
                     2 * i, clusters});
    data += regret_block(own) + (clusters ? quality_block(own) : std::string("0 0 0 0\n\n\n"));
  }
  write_text_file(folder / kData, data);
  write_text_file(folder / kScript, script(lines, experiment.options));
  run_gnuplot(folder, kScript);
  return {folder / "regret.png", folder / "regret.svg"};
}

}  // namespace mcnb
