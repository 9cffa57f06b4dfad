#include "mcnb/experiment/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>

#include "mcnb/base/check.h"
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
// Of gnuplot: filled circle, square, triangles, diamond, pentagon, and a ring. As many as have no
// common divisor with the colours, so that each line has a mark and colour of its own.
constexpr std::array<std::size_t, 7> kMarks = {7, 5, 9, 13, 11, 15, 6};
// Those that are seen together in small pictures come first, in colours of their own.
constexpr std::array<std::string_view, 15> kLooks = {
    "mcnb",           "neuucb-one", "neuau", "linucb:users=each", "neural-linear", "linucb",
    "random",         "kernelucb",  "locb",  "neuucb-ind",        "neuralts",      "club",
    "epsilon-greedy", "cofiba",     "sclub"};
constexpr std::size_t kAdjustedRand = 2;
constexpr std::size_t kSmoothing = 10;  // measurements in a moving mean
constexpr std::size_t kMostInside = 8;  // lines of a legend that do not hide the curves
constexpr const char* kBelow = "below center horizontal height 1";  // clear of the axis' name
constexpr double kLineWidth = 2.5;
constexpr double kFirstLineWidth = 4.0;  // of the policy that the others are held against
constexpr const char* kRandom = "random";
constexpr double kHeadroom = 1.05;  // of the y axis, over the highest band that is to be seen
constexpr double kFarAbove = 1.5;   // so many times the height of all others: it may leave
constexpr std::size_t kFewOf = 4;   // lines of which one may do so

// The mean over the seeds at a round, and by how much they scatter.
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

// How much more regret it is than another's, seed by seed: the mean and its 95 % interval. Requires
// the same seeds.
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

// Whether two policies, neither of which finds clusters, had the same regret all the time.
bool are_equal(const std::vector<CellResult>& one, const std::vector<CellResult>& other) {
  return std::ranges::equal(one, other, [](const CellResult& a, const CellResult& b) {
    return a.quality.empty() && b.quality.empty() &&
           std::ranges::equal(a.curve, b.curve, {}, &RegretPoint::regret, &RegretPoint::regret);
  });
}

// Round, mean, mean less deviation, mean plus deviation.
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
  std::vector<std::string> equals;  // policies with the same curves
  std::string style;                // colour and dashes
  std::string colour;
  std::size_t block;  // of the data: regret; the next one is quality
  bool clusters;
  double width;
  bool may_leave;  // the frame
  double end;      // mean regret after the last round
  double most;     // highest point of the band
  double least;    // lowest point of the band
};

// Lines that would press all others together may leave the frame: random play, and at most one
// line of four that lies far above all others. Never the first.
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
    const double height = by_top[leaving]->most - bottom;  // of the frame without them
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

// Where the y axis ends: above the lines that may not leave the frame. Nothing where all fit.
std::optional<double> regret_limit(const std::vector<Line>& lines) {
  double seen = 0.0;
  double leaving = 0.0;
  for (const Line& line : lines) {
    (line.may_leave ? leaving : seen) = std::max(line.may_leave ? leaving : seen, line.most);
  }
  return seen > 0.0 && leaving > kHeadroom * seen ? std::optional(kHeadroom * seen) : std::nullopt;
}

// What a panel of curves says of itself.
struct PanelText {
  std::string title;
  std::string y;
  const char* low;  // end of the y axis
};

PanelText regret_text(std::uint64_t seeds, const std::string& of) {
  const std::string over =
      seeds > 1 ? fmt::format("mean of {} seeds ± deviation", seeds) : "1 seed";
  return {fmt::format("Cumulative regret{} ({})", of.empty() ? "" : ", " + of, over), "regret",
          "0"};
}

PanelText difference_text(const std::string& first, std::uint64_t seeds, const std::string& of) {
  const std::string over =
      seeds > 1 ? fmt::format("mean over {} seeds with its 95 % interval", seeds) : "1 seed";
  return {fmt::format("More regret than {}{} ({})", first, of.empty() ? "" : ", " + of, over),
          "more regret than " + first, "*"};
}

std::string curves_panel(const std::vector<Line>& lines, std::uint64_t seeds,
                         const std::string& data, const PanelText& about) {
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
    const std::string label =
        leaves ? fmt::format("{} ({:.0f})", line.label, line.end) : line.label;
    plots += fmt::format("'{}' index {} using 1:2 with lines linewidth {} {} title {}, ", data,
                         line.block, line.width, line.style, gnuplot_string(label));
    for (const std::string& equal : line.equals) {
      plots += fmt::format("NaN with lines linewidth {} {} title {}, ", line.width, line.style,
                           gnuplot_string(equal + " = " + line.label));
    }
  }
  // Once more, over all others.
  plots += fmt::format("'{}' index {} using 1:2 with lines linewidth {} {} notitle\n", data,
                       lines.front().block, lines.front().width, lines.front().style);
  return fmt::format(
      "set title {} noenhanced\n"
      "set ylabel {} noenhanced\n"
      "set yrange [{}:{}]\n"
      "set key {} Left reverse noenhanced samplen 2.5 spacing 1.15\n"
      "plot {}",
      gnuplot_string(about.title), gnuplot_string(about.y), about.low,
      limit ? fmt::format("{}", *limit) : "*",
      // A line that leaves the frame goes where the legend would be.
      entries <= kMostInside && !limit ? "top left opaque" : kBelow, plots);
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
      plots += fmt::format("{}'{}' index {} using 1:{} with lines linewidth {} {} title {}",
                           plots.empty() ? "" : ", ", data, line.block + 1, measure + 2,
                           alone ? kLineWidth : line.width, style,
                           gnuplot_string(alone ? kMeasures[measure] : line.label));
    }
  }
  return fmt::format(
      "set title {} noenhanced\n"
      "set ylabel '{}'\n"
      "set yrange [*<-0.04:1.02]\n"
      "set autoscale yfixmin\n"
      "set key {} Left reverse noenhanced samplen 3.5 spacing 1.15\n"
      "plot {}\n",
      gnuplot_string("Found clusters against the users that truly agree" +
                     (alone ? ": " + whose : std::string())),
      alone ? "share" : kMeasures[kAdjustedRand], kBelow, plots);
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
  const char* size = clusters ? "1600,680" : "1400,760";
  for (const char* kind : {"png", "svg"}) {
    text += start_picture(name, kind, size) +
            fmt::format("set multiplot layout 1,{}\n", clusters ? 2 : 1);
    text += "set format y '%g'\n" + curves_panel(lines, options.seeds, name + ".dat", about);
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

// What a line looks like: the colour, dashes and mark of a place among all there are.
std::string colour_of(std::size_t look) { return kColours[look % kColours.size()]; }
std::string dashes_of(std::size_t look) { return look < kColours.size() ? "solid" : "(10,5)"; }
std::size_t mark_of(std::size_t look) { return kMarks[look % kMarks.size()]; }

// A policy looks the same in all pictures, unless a line before it has its look already; what is no
// policy takes the looks that are left.
std::vector<std::size_t> looks_of(const std::vector<std::string>& labels) {
  std::vector<std::optional<std::size_t>> looks(labels.size());
  std::set<std::size_t> taken;
  for (const bool exactly : {true, false}) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      for (std::size_t look = 0; look < kLooks.size() && !looks[i]; ++look) {
        const std::string name(kLooks[look]);
        if ((labels[i] == name || (!exactly && labels[i].starts_with(name + ":"))) &&
            taken.insert(look).second) {
          looks[i] = look;
        }
      }
    }
  }
  std::vector<std::size_t> all;
  std::size_t free = 0;
  for (const std::optional<std::size_t>& look : looks) {
    while (!look && !taken.insert(free).second) {
      ++free;
    }
    all.push_back(look.value_or(free));
  }
  return all;
}

// A line for each policy that has results, and its numbers behind `data`: regrets, or how much more
// they are than those of `first`.
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
      continue;  // the others keep their colours
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

// Where the y axis of draw_lines ends: above all lines but those that may leave the frame. Nothing
// where these fit as well.
std::optional<double> lines_limit(const std::vector<PlotLine>& lines) {
  double seen = 0.0;
  double leaving = 0.0;
  for (const PlotLine& line : lines) {
    for (const PlotPoint& point : line.points) {
      double& top = line.may_leave ? leaving : seen;
      top = std::max(top, point.y + point.deviation);
    }
  }
  return seen > 0.0 && leaving > kHeadroom * seen ? std::optional(kHeadroom * seen) : std::nullopt;
}

// What is drawn of one line of draw_lines.
std::string line_plot(const PlotLine& line, std::size_t i, std::size_t look, const PlotFrame& frame,
                      const std::string& data, const std::optional<double>& limit) {
  const std::string colour = colour_of(look);
  const std::string from = fmt::format("'{}' index {} using ", data, i);
  const double end = line.points.back().y;
  const bool leaves = line.may_leave && limit && end > *limit;
  const std::string title =
      gnuplot_string(leaves ? fmt::format("{} ({:.0f}, above)", line.label, end) : line.label);
  if (line.published) {
    return from +
           fmt::format("1:2 with lines linewidth 3 linecolor rgb '{}' dashtype (4,8) title {}",
                       colour, title);
  }
  const std::string marks =
      fmt::format("linecolor rgb '{}' pointtype {} pointsize {}", colour, mark_of(look),
                  frame.only_points ? (line.wide ? 2.4 : 1.8) : 1.3);
  const std::string bars = from + "1:2:3 with yerrorbars linewidth 1.5 " + marks + " ";
  if (frame.only_points) {
    return bars + "notitle, " + from + "1:2 with points linewidth 2 " + marks + " title " + title;
  }
  return bars + fmt::format("notitle, {}1:2 with linespoints linewidth {} {} dashtype {} title {}",
                            from, line.wide ? kFirstLineWidth : kLineWidth, marks, dashes_of(look),
                            title);
}

struct Extent {
  double low;
  double high;
};

// Of all x above zero, with a margin; gnuplot would go on to the next power of ten.
std::optional<Extent> log_range(const std::vector<PlotLine>& lines) {
  Extent range{std::numeric_limits<double>::infinity(), 0.0};
  for (const PlotLine& line : lines) {
    for (const PlotPoint& point : line.points) {
      if (point.x > 0.0) {
        range = {std::min(range.low, point.x), std::max(range.high, point.x)};
      }
    }
  }
  if (range.high == 0.0) {
    return std::nullopt;
  }
  const double margin = std::max(1.1, std::pow(range.high / range.low, 0.05));
  return Extent{range.low / margin, range.high * margin};
}

// Powers of ten, and twice and five times them where there is room.
PlotTicks log_ticks(const Extent& range) {
  constexpr double kManyDecades = 4.0;
  const bool room = std::log10(range.high / range.low) < kManyDecades;
  PlotTicks ticks;
  for (double power = std::floor(std::log10(range.low)); power <= std::log10(range.high); ++power) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double x = times * std::pow(10.0, power);
      if ((times == 1.0 || room) && x >= range.low && x <= range.high) {
        ticks.emplace_back(fmt::format("{:g}", x), x);
      }
    }
  }
  return ticks;
}

std::string ticks_text(const PlotTicks& ticks) {
  std::string text;
  for (const auto& [label, x] : ticks) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gnuplot_string(label), x);
  }
  return text.empty() ? text : fmt::format("set xtics ({})\n", text);
}

}  // namespace

PlotFiles draw_plot(const std::filesystem::path& folder, const Experiment& experiment,
                    const std::vector<CellResult>& results, const std::string& name,
                    const std::string& of) {
  std::string data;
  const std::vector<Line> lines = lines_of(experiment, results, nullptr, data);
  return draw(folder, name, data,
              script(lines, experiment.options, name, regret_text(experiment.options.seeds, of)));
}

PlotFiles draw_differences(const std::filesystem::path& folder, const Experiment& experiment,
                           const std::vector<CellResult>& results, const std::string& name,
                           const std::string& of) {
  const std::string& label = experiment.policies.front().label;
  const std::vector<CellResult> first = results_of(results, label);
  check(!first.empty(), "the others are held against somebody");
  std::string data;
  const std::vector<Line> lines = lines_of(experiment, results, &first, data);
  return draw(folder, name, data,
              script(lines, experiment.options, name,
                     difference_text(label, experiment.options.seeds, of)));
}

PlotFiles draw_lines(const std::filesystem::path& folder, const std::string& name,
                     const PlotFrame& frame, const std::vector<PlotLine>& lines) {
  const std::optional<double> limit = lines_limit(lines);
  std::vector<std::string> labels;
  for (const PlotLine& line : lines) {
    labels.push_back(line.label);
  }
  const std::vector<std::size_t> looks = looks_of(labels);
  std::string data;
  std::string plots;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const PlotPoint& point : lines[i].points) {
      data += fmt::format("{} {} {}\n", point.x, point.y, point.deviation);
    }
    data += "\n\n";
    plots += (i == 0 ? "" : ", ") + line_plot(lines[i], i, looks[i], frame, name + ".dat", limit);
  }
  const std::optional<Extent> range = frame.log_x ? log_range(lines) : std::nullopt;
  std::string text =
      std::string(kPlotStyle) +
      fmt::format(
          "set title {} noenhanced\nset xlabel {} noenhanced\nset ylabel {} "
          "noenhanced\n",
          gnuplot_string(frame.title), gnuplot_string(frame.x), gnuplot_string(frame.y)) +
      (range ? fmt::format("set logscale x\nset xrange [{}:{}]\n", range->low, range->high) : "") +
      ticks_text(frame.ticks.empty() && range ? log_ticks(*range) : frame.ticks) +
      "set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05\n" +
      fmt::format("set yrange [0<*:{}]\n", limit ? fmt::format("{}", *limit) : "*") +
      fmt::format("set key {} Left reverse noenhanced samplen 2.5 spacing 1.15\n",
                  frame.only_points ? "outside right top vertical" : kBelow);
  for (const char* kind : {"png", "svg"}) {
    text += start_picture(name, kind, "1300,720") + "plot " + plots + "\nunset output\n";
  }
  return draw(folder, name, data, text);
}

}  // namespace mcnb
