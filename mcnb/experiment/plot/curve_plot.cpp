#include "mcnb/experiment/plot/curve_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>

#include "mcnb/base/check.h"
#include "mcnb/experiment/plot/gnuplot.h"
#include "mcnb/experiment/results/plain_labels.h"
#include "mcnb/experiment/results/statistics.h"
#include "mcnb/experiment/results/summary.h"

namespace mcnb {
namespace {

constexpr std::array<const char*, 3> kMeasures = {"precision", "recall", "adjusted Rand index"};
constexpr std::array<const char*, 3> kDashes = {"(12,6)", "(3,5)", "solid"};
constexpr std::array<const char*, 3> kMeasureColours = {"#0072B2", "#E69F00", "#009E73"};
constexpr std::size_t kAdjustedRand = 2;
constexpr std::size_t kSmoothing = 10;  // measurements in a moving mean
constexpr std::size_t kMostInside = 8;  // lines of a legend that do not hide the curves
constexpr const char* kRandom = "random";
constexpr double kFarAbove = 1.5;  // a line this many times as high as all others may leave
constexpr std::size_t kFewOf = 4;  // one line in so many may leave

// The mean over the seeds at one round, and the half width of the band around it.
struct BandPoint {
  std::uint64_t round;
  double mean;
  double deviation;
};

std::vector<BandPoint> regret_band(const std::vector<CellResult>& results) {
  std::vector<BandPoint> band;
  for (std::size_t i = 0; i < results.front().curve.size(); ++i) {
    std::vector<double> regrets;
    for (const CellResult& result : results) {
      regrets.push_back(result.curve[i].regret);
    }
    band.push_back(
        {results.front().curve[i].round, mean(regrets), standard_deviation(regrets).value_or(0.0)});
  }
  return band;
}

// The difference to the first policy's regret, seed by seed: its mean and the half width of its 95
// % interval. Requires equal seeds.
std::vector<BandPoint> difference_band(const std::vector<CellResult>& results,
                                       const std::vector<CellResult>& first) {
  std::vector<BandPoint> band;
  for (std::size_t i = 0; i < results.front().curve.size(); ++i) {
    std::vector<double> regrets;
    std::vector<double> reference;
    for (std::size_t seed = 0; seed < results.size(); ++seed) {
      regrets.push_back(results[seed].curve[i].regret);
      reference.push_back(first[seed].curve[i].regret);
    }
    const std::optional<PairedComparison> judged = compare_pairs(regrets, reference);
    band.push_back({results.front().curve[i].round, mean(regrets) - mean(reference),
                    judged ? judged->high - judged->difference : 0.0});
  }
  return band;
}

// True if both policies had equal regrets in all rounds. Never true for policies that find
// clusters, because these also have lines of their own in the second panel.
bool are_equal(const std::vector<CellResult>& one, const std::vector<CellResult>& other) {
  return std::ranges::equal(one, other, [](const CellResult& a, const CellResult& b) {
    return a.quality.empty() && b.quality.empty() &&
           std::ranges::equal(a.curve, b.curve, {}, &RegretPoint::regret, &RegretPoint::regret);
  });
}

// Data columns: round, mean, lower and upper end of the band.
std::string regret_block(const std::vector<BandPoint>& band) {
  std::string text = "0 0 0 0\n";
  for (const BandPoint& point : band) {
    text += fmt::format("{} {} {} {}\n", point.round, point.mean, point.mean - point.deviation,
                        point.mean + point.deviation);
  }
  return text + "\n\n";
}

double bottom_of(const std::vector<BandPoint>& band) {
  double least = 0.0;
  for (const BandPoint& point : band) {
    least = std::min(least, point.mean - point.deviation);
  }
  return least;
}

double top_of(const std::vector<BandPoint>& band) {
  double most = 0.0;
  for (const BandPoint& point : band) {
    most = std::max(most, point.mean + point.deviation);
  }
  return most;
}

// Data columns: round, precision, recall, adjusted Rand index; means over the seeds and the last
// few measurements.
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

// A policy of the picture: its look, and where its numbers are in the data file.
struct Line {
  std::string label;
  std::vector<std::string> equals;  // policies with the same curves
  std::string style;                // colour and dashes
  std::string colour;
  std::size_t
      block;  // index of its regrets in the data file; the next block has its cluster quality
  bool clusters;
  double width;
  bool may_leave;  // may leave the frame
  double end;      // mean regret after the last round
  double most;     // highest point of the band
  double least;    // lowest point of the band
};

// Lines that would press all others together may leave the frame: random play, and at most one
// line in four that lies far above all others. The first line never may.
void let_some_leave(std::vector<Line>& lines) {
  std::vector<Line*> by_top;
  for (Line& line : lines) {
    if (!line.may_leave) {
      by_top.push_back(&line);
    }
  }
  std::ranges::sort(by_top, std::greater(), &Line::most);
  double bottom = 0.0;
  for (const Line& line : lines) {
    bottom = std::min(bottom, line.least);
  }
  for (std::size_t leaving = by_top.size() / kFewOf; leaving > 0; --leaving) {
    const auto above = std::span(by_top).first(leaving);
    const double height = by_top[leaving]->most - bottom;  // of a frame without these lines
    if (std::ranges::all_of(above, [&](const Line* line) {
          return line->end - bottom > kFarAbove * height && line != &lines.front();
        })) {
      for (Line* line : above) {
        line->may_leave = true;
      }
      return;
    }
  }
}

// The end of the y axis: above all lines that may not leave the frame. nullopt if all lines fit.
std::optional<double> regret_limit(const std::vector<Line>& lines) {
  double seen = 0.0;
  double leaving = 0.0;
  for (const Line& line : lines) {
    (line.may_leave ? leaving : seen) = std::max(line.may_leave ? leaving : seen, line.most);
  }
  return seen > 0.0 && leaving > kHeadroom * seen ? std::optional(kHeadroom * seen) : std::nullopt;
}

// Title and y axis of a panel of curves.
struct PanelText {
  std::string title;
  std::string y;
  const char* low;  // lower end of the y axis, for gnuplot
};

PanelText regret_panel(std::uint64_t seeds, const std::string& about) {
  const std::string over =
      seeds > 1 ? fmt::format("mean of {} seeds ± deviation", seeds) : "1 seed";
  return {fmt::format("Cumulative regret{} ({})", about.empty() ? "" : ", " + about, over),
          "regret", "0"};
}

PanelText difference_panel(const std::string& first, std::uint64_t seeds,
                           const std::string& about) {
  const std::string over =
      seeds > 1 ? fmt::format("mean over {} seeds with its 95 % interval", seeds) : "1 seed";
  return {fmt::format("More regret than {}{} ({})", plain_label(first),
                      about.empty() ? "" : ", " + about, over),
          "more regret than " + plain_label(first), "*"};
}

std::string curves_panel(const std::vector<Line>& lines, std::uint64_t seeds,
                         const std::string& data, const PanelText& about, const PictureKind& kind) {
  const std::optional<double> limit = regret_limit(lines);
  std::string plots;
  std::size_t entries = lines.size();  // of the legend
  for (const Line& line : lines) {
    entries += line.equals.size();
    plots += seeds > 1 ? fmt::format(
                             "'{}' index {} using 1:3:4 with filledcurves fillcolor "
                             "rgb '{}' fillstyle transparent solid 0.16 noborder notitle, ",
                             data, line.block, line.colour)
                       : "";
  }
  for (const Line& line : lines) {
    const bool leaves = limit && line.end > *limit;  // the legend says where it ends
    const std::string label = leaves ? fmt::format("{} ({:.0f})", plain_label(line.label), line.end)
                                     : plain_label(line.label);
    plots += fmt::format("'{}' index {} using 1:2 with lines linewidth {} {} title {}, ", data,
                         line.block, line.width, line.style, gnuplot_string(label, kind));
    for (const std::string& equal : line.equals) {
      plots +=
          fmt::format("NaN with lines linewidth {} {} title {}, ", line.width, line.style,
                      gnuplot_string(plain_label(equal) + " = " + plain_label(line.label), kind));
    }
  }
  // The first line again, on top of all others.
  plots += fmt::format("'{}' index {} using 1:2 with lines linewidth {} {} notitle\n", data,
                       lines.front().block, lines.front().width, lines.front().style);
  return title_command(about.title, kind) +
         fmt::format(
             "set ylabel {} noenhanced\n"
             "set yrange [{}:{}]\n"
             "set key {} Left reverse noenhanced samplen 2.5 spacing 1.15\n"
             "plot {}",
             gnuplot_string(about.y, kind), about.low, limit ? fmt::format("{}", *limit) : "*",
             // A line that leaves the frame would cross a legend inside it.
             entries <= kMostInside && !limit ? "top left opaque" : kLegendBelow, plots) +
         axes_commands(kind, false);
}

// Shows all measures of a single policy; of several policies the adjusted Rand index, which
// combines the others.
std::string quality_panel(const std::vector<Line>& lines, const std::string& data,
                          const PictureKind& kind) {
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
      plots +=
          fmt::format("{}'{}' index {} using 1:{} with lines linewidth {} {} title {}",
                      plots.empty() ? "" : ", ", data, line.block + 1, measure + 2,
                      alone ? kLineWidth : line.width, style,
                      gnuplot_string(alone ? kMeasures[measure] : plain_label(line.label), kind));
    }
  }
  return title_command("Found clusters against the users that truly agree" +
                           (alone ? ": " + plain_label(whose) : std::string()),
                       kind) +
         fmt::format(
             "set ylabel '{}'\n"
             "set yrange [*<-0.04:1.02]\n"
             "set autoscale yfixmin\n"
             "set key {} Left reverse noenhanced samplen 3.5 spacing 1.15\n"
             "plot {}\n",
             alone ? "share" : kMeasures[kAdjustedRand], kLegendBelow, plots) +
         axes_commands(kind, false);
}

std::string script(const std::vector<Line>& lines, const ExperimentOptions& options,
                   const std::string& name, const PanelText& about) {
  const bool clusters = std::ranges::any_of(lines, &Line::clusters);
  std::string text = std::string(kPlotStyle) +
                     "set xlabel 'round'\n"
                     "set format '%.0f'\n"
                     "set lmargin 11\n"
                     "set rmargin 4\n";
  text += fmt::format("set xrange [0:{}]\n", options.rounds);
  const PictureSize size = clusters ? PictureSize{.width = 1600, .height = 680}
                                    : PictureSize{.width = 1400, .height = 760};
  for (const PictureKind& kind : kPictureKinds) {
    text += start_picture(name, kind, size) +
            fmt::format("set multiplot layout 1,{}\n", clusters ? 2 : 1);
    text += "set format y '%g'\n" + curves_panel(lines, options.seeds, name + ".dat", about, kind);
    text += clusters ? "set format y '%.1f'\n" + quality_panel(lines, name + ".dat", kind) : "";
    text += "unset multiplot\n" + end_picture();
  }
  return text;
}

// One line for each policy with results. Appends its numbers to `data`: its regrets, or their
// differences to `first` unless that is null.
std::vector<Line> lines_of(const Experiment& experiment, const std::vector<CellResult>& results,
                           const std::vector<CellResult>* first, std::string& data) {
  std::vector<Line> lines;
  std::vector<std::vector<CellResult>> drawn;  // of each line
  std::vector<std::string> labels;
  for (const PolicySpec& policy : experiment.policies) {
    labels.push_back(policy.label);
  }
  const std::vector<std::size_t> looks = looks_of(labels);
  for (std::size_t i = 0; i < experiment.policies.size(); ++i) {
    const std::string& label = experiment.policies[i].label;
    const std::vector<CellResult> own = results_of(results, label);
    if (own.empty()) {
      continue;
    }
    const auto same = std::ranges::find_if(
        drawn, [&](const std::vector<CellResult>& other) { return are_equal(own, other); });
    if (same != drawn.end()) {
      lines[static_cast<std::size_t>(same - drawn.begin())].equals.push_back(label);
      continue;
    }
    drawn.push_back(own);
    const std::vector<BandPoint> band =
        first == nullptr ? regret_band(own) : difference_band(own, *first);
    const std::string colour = colour_of(looks[i]);
    const bool clusters = first == nullptr && !own.front().quality.empty();
    lines.push_back(
        {.label = label,
         .equals = {},
         .style = fmt::format("linecolor rgb '{}' dashtype {}", colour, dashes_of(looks[i])),
         .colour = colour,
         .block = 2 * lines.size(),
         .clusters = clusters,
         .width = i == 0 ? kFirstLineWidth : kLineWidth,
         .may_leave = experiment.policies[i].name == kRandom,
         .end = band.back().mean,
         .most = top_of(band),
         .least = bottom_of(band)});
    data += regret_block(band) + (clusters ? quality_block(own) : std::string("0 0 0 0\n\n\n"));
  }
  let_some_leave(lines);
  return lines;
}

}  // namespace

PlotFiles draw_regrets(const std::filesystem::path& folder, const Experiment& experiment,
                       const std::vector<CellResult>& results, const std::string& name,
                       const std::string& about) {
  std::string data;
  const std::vector<Line> lines = lines_of(experiment, results, nullptr, data);
  return draw_picture(
      folder, name, data,
      script(lines, experiment.options, name, regret_panel(experiment.options.seeds, about)));
}

PlotFiles draw_differences(const std::filesystem::path& folder, const Experiment& experiment,
                           const std::vector<CellResult>& results, const std::string& name,
                           const std::string& about) {
  const std::string& label = experiment.policies.front().label;
  const std::vector<CellResult> first = results_of(results, label);
  check(!first.empty(), "there are results of the first policy");
  std::string data;
  const std::vector<Line> lines = lines_of(experiment, results, &first, data);
  return draw_picture(folder, name, data,
                      script(lines, experiment.options, name,
                             difference_panel(label, experiment.options.seeds, about)));
}

}  // namespace mcnb
