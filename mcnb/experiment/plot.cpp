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
constexpr std::array<std::size_t, 4> kMarks = {7, 5, 9, 13};  // of gnuplot: filled shapes
constexpr std::size_t kAdjustedRand = 2;
constexpr std::size_t kSmoothing = 10;  // measurements in a moving mean
constexpr std::size_t kMostInside = 8;  // lines of a legend that do not hide the curves

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

std::string regret_panel(const std::vector<Line>& lines, std::uint64_t seeds,
                         const std::string& data, const std::string& of) {
  std::string plots;
  for (const Line& line : lines) {
    plots += seeds > 1 ? fmt::format(
                             "'{}' index {} using 1:3:4 with filledcurves fillcolor "
                             "rgb '{}' fillstyle transparent solid 0.16 noborder notitle, ",
                             data, line.block, line.colour)
                       : "";
  }
  for (const Line& line : lines) {
    plots += fmt::format("'{}' index {} using 1:2 with lines linewidth 2.5 {} title {}{}", data,
                         line.block, line.style, gnuplot_string(line.label),
                         &line == &lines.back() ? "\n" : ", ");
  }
  const std::string over =
      seeds > 1 ? fmt::format("mean of {} seeds ± deviation", seeds) : "1 seed";
  return fmt::format(
      "set title {} noenhanced\n"
      "set ylabel 'regret'\n"
      "set yrange [0:*]\n"
      "set key {} Left reverse noenhanced opaque samplen 2.5 spacing 1.15\n"
      "plot {}",
      gnuplot_string(fmt::format("Cumulative regret{} ({})", of.empty() ? "" : ", " + of, over)),
      lines.size() <= kMostInside ? "top left" : "below center horizontal", plots);
}

// Of one policy all measures; of several the adjusted Rand index, which unites the others.
std::string quality_panel(const std::vector<Line>& lines, const std::string& data) {
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
                           plots.empty() ? "" : ", ", data, line.block + 1, measure + 2, style,
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

std::string script(const std::vector<Line>& lines, const ExperimentOptions& options,
                   const std::string& name, const std::string& of) {
  const bool clusters = std::ranges::any_of(lines, &Line::clusters);
  std::string text = std::string(kPlotStyle) +
                     "set xlabel 'round'\n"
                     "set format '%.0f'\n"
                     "set lmargin 11\n"
                     "set rmargin 4\n";
  text += fmt::format("set xrange [0:{}]\n", options.rounds);
  const char* size = clusters ? "1600,680" : "1400,760";
  for (const char* kind : {"png", "svg"}) {
    text += start_picture(name, kind, size) +
            fmt::format("set multiplot layout 1,{}\n", clusters ? 2 : 1);
    text += "set format y '%g'\n" + regret_panel(lines, options.seeds, name + ".dat", of);
    text += clusters ? "set format y '%.1f'\n" + quality_panel(lines, name + ".dat") : "";
    text += "unset multiplot\nunset output\n";
  }
  return text;
}

PlotFiles draw(const std::filesystem::path& folder, const std::string& name,
               const std::string& data, const std::string& script) {
  write_text_file(folder / (name + ".dat"), data);
  write_text_file(folder / (name + ".gp"), script);
  run_gnuplot(folder, name + ".gp");
  return {folder / (name + ".png"), folder / (name + ".svg")};
}

std::string colour_of(std::size_t line) { return kColours[line % kColours.size()]; }

// What is drawn of one line of draw_lines.
std::string line_plot(const PlotLine& line, std::size_t i, const PlotFrame& frame,
                      const std::string& data) {
  const std::string colour = colour_of(i);
  const std::size_t mark = kMarks[i / kColours.size() % kMarks.size()];
  const std::string from = fmt::format("'{}' index {} using ", data, i);
  if (line.published) {
    return from +
           fmt::format("1:2 with lines linewidth 2 linecolor rgb '{}' dashtype (3,4) title {}",
                       colour, gnuplot_string(line.label));
  }
  const std::string bars =
      from + fmt::format(
                 "1:2:3 with yerrorbars linewidth 1.5 linecolor rgb '{}' pointtype {} "
                 "pointsize 1.1 ",
                 colour, mark);
  if (frame.named_points) {
    return bars + "notitle, " + from +
           fmt::format(
               "1:2:({}) with labels left offset 0.9,0.4 textcolor rgb '{}' noenhanced "
               "notitle",
               "\"" + line.label + "\"", colour);
  }
  return bars + fmt::format(
                    "notitle, {}1:2 with linespoints linewidth 2.5 linecolor rgb '{}' "
                    "pointtype {} pointsize 1.1 dashtype {} title {}",
                    from, colour, mark, i < kColours.size() ? "solid" : "(10,5)",
                    gnuplot_string(line.label));
}

}  // namespace

PlotFiles draw_plot(const std::filesystem::path& folder, const Experiment& experiment,
                    const std::vector<CellResult>& results, const std::string& name,
                    const std::string& of) {
  std::string data;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < experiment.policies.size(); ++i) {
    const std::string& label = experiment.policies[i].label;
    const std::vector<CellResult> own = results_of(results, label);
    const std::string colour = colour_of(i);
    const std::string dashes = i < kColours.size() ? "solid" : "(10,5)";
    const bool clusters = !own.front().quality.empty();
    lines.push_back({label, fmt::format("linecolor rgb '{}' dashtype {}", colour, dashes), colour,
                     2 * i, clusters});
    data += regret_block(own) + (clusters ? quality_block(own) : std::string("0 0 0 0\n\n\n"));
  }
  return draw(folder, name, data, script(lines, experiment.options, name, of));
}

PlotFiles draw_lines(const std::filesystem::path& folder, const std::string& name,
                     const PlotFrame& frame, const std::vector<PlotLine>& lines) {
  std::string data;
  std::string plots;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const PlotPoint& point : lines[i].points) {
      data += fmt::format("{} {} {}\n", point.x, point.y, point.deviation);
    }
    data += "\n\n";
    plots += (i == 0 ? "" : ", ") + line_plot(lines[i], i, frame, name + ".dat");
  }
  std::string ticks;
  for (std::size_t i = 0; i < frame.ticks.size(); ++i) {
    ticks += fmt::format("{}{} {}", i == 0 ? "" : ", ", gnuplot_string(frame.ticks[i].first),
                         frame.ticks[i].second);
  }
  std::string text =
      std::string(kPlotStyle) +
      fmt::format("set title {} noenhanced\nset xlabel {} noenhanced\nset ylabel {} noenhanced\n",
                  gnuplot_string(frame.title), gnuplot_string(frame.x), gnuplot_string(frame.y)) +
      (frame.log_x ? "set logscale x\n" : "") +
      (ticks.empty() ? std::string() : fmt::format("set xtics ({})\n", ticks)) +
      (frame.named_points ? "set offsets graph 0.05, graph 0.25, graph 0.06, graph 0.04\n"
                          : "set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05\n") +
      "set yrange [0<*:*]\n"
      "set key below center horizontal Left reverse noenhanced samplen 2.5 spacing 1.15\n";
  for (const char* kind : {"png", "svg"}) {
    text += start_picture(name, kind, "1300,720") + "plot " + plots + "\nunset output\n";
  }
  return draw(folder, name, data, text);
}

}  // namespace mcnb
