#include "mcnb/experiment/plot/line_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "mcnb/experiment/plot/gnuplot.h"
#include "mcnb/experiment/results/plain_labels.h"

namespace mcnb {
namespace {

// The end of the y axis: above all lines that may not leave the frame. nullopt if all lines fit.
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

// The part of the plot command that draws one line.
std::string line_plot(const PlotLine& line, std::size_t i, std::size_t look, const PlotFrame& frame,
                      const std::string& data, const std::optional<double>& limit,
                      const PictureKind& kind) {
  const std::string colour = colour_of(look);
  const std::string from = fmt::format("'{}' index {} using ", data, i);
  const double end = line.points.back().y;
  const bool leaves = line.may_leave && limit && end > *limit;
  const std::string label = plain_label(line.label);
  const std::string title =
      gnuplot_string(leaves ? fmt::format("{} ({:.0f}, above)", label, end) : label, kind);
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

// The range of all x above zero, with a margin. gnuplot itself would extend it to powers of ten.
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

// Powers of ten; in a short range also their multiples by two and five.
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

std::string ticks_text(const PlotTicks& ticks, const PictureKind& kind) {
  std::string text;
  for (const auto& [label, x] : ticks) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gnuplot_string(label, kind), x);
  }
  return text.empty() ? text : fmt::format("set xtics ({})\n", text);
}

std::string frame_commands(const PlotFrame& frame, const std::optional<Extent>& range,
                           const std::optional<double>& limit, const PictureKind& kind) {
  return title_command(frame.title, kind) +
         fmt::format("set xlabel {} noenhanced\nset ylabel {} noenhanced\n",
                     gnuplot_string(frame.x, kind), gnuplot_string(frame.y, kind)) +
         (range ? fmt::format("set logscale x\nset xrange [{}:{}]\n", range->low, range->high)
                : "") +
         ticks_text(frame.ticks.empty() && range ? log_ticks(*range) : frame.ticks, kind) +
         "set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05\n" +
         fmt::format("set yrange [0<*:{}]\n", limit ? fmt::format("{}", *limit) : "*") +
         fmt::format("set key {} Left reverse noenhanced samplen 2.5 spacing 1.15\n",
                     frame.only_points ? "outside right top vertical" : kLegendBelow);
}

}  // namespace

PlotFiles draw_lines(const std::filesystem::path& folder, const std::string& name,
                     const PlotFrame& frame, const std::vector<PlotLine>& lines) {
  const std::optional<double> limit = lines_limit(lines);
  std::vector<std::string> labels;
  for (const PlotLine& line : lines) {
    labels.push_back(line.label);
  }
  const std::vector<std::size_t> looks = looks_of(labels);
  std::string data;
  for (const PlotLine& line : lines) {
    for (const PlotPoint& point : line.points) {
      data += fmt::format("{} {} {}\n", point.x, point.y, point.deviation);
    }
    data += "\n\n";
  }
  const std::optional<Extent> range = frame.log_x ? log_range(lines) : std::nullopt;
  std::string text = kPlotStyle;
  for (const PictureKind& kind : kPictureKinds) {
    text += start_picture(name, kind) + frame_commands(frame, range, limit, kind) + "plot ";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += (i == 0 ? "" : ", ") +
              line_plot(lines[i], i, looks[i], frame, name + ".dat", limit, kind);
    }
    text += "\n" + axes_commands(kind, range.has_value()) + end_picture();
  }
  return draw_picture(folder, name, data, text);
}

}  // namespace mcnb
