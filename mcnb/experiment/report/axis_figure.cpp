#include <algorithm>
#include <cmath>

#include "mcnb/experiment/plot/line_plot.h"
#include "mcnb/experiment/report/figures.h"

namespace mcnb {
namespace {

double users_in(const ShownStudy& shown) {
  const OptionValues options = all_options(shown.study->experiment.environment);
  const auto users = options.find("users");
  return users == options.end() ? 1.0 : as_number(users->second).value_or(1.0);
}

// A line of the picture: a policy, with one value of plan.lines if the plan has that table.
struct LinePolicy {
  std::string policy;
  std::string line_value;
};

// The picture and the table of one environment.
class AxisFigure {
 public:
  AxisFigure(const FigureInput& input, const ShownStudy& shown, SectionWriter& writer)
      : plan_(input.plan),
        all_shown_(input.shown),
        shown_(shown),
        writer_(writer),
        has_numbers_(std::ranges::all_of(
            plan_.axis->values,
            [](const std::string& value) { return as_number(value).has_value(); })),
        people_(headings()),
        machines_({"environment", "settings", "line", "option", "value", "rounds", "seeds", "mean",
                   "deviation"}) {}

  void add() {
    for (const LinePolicy& line : line_policies()) {
      add_measured(line);
    }
    if (has_numbers_ && !lines_.empty() && !plan_.references.empty()) {
      add_references();
    }
    for (const PublishedLine& published : plan_.published) {
      if (writer_.applies(published)) {
        add_published(published);
      }
    }
    const std::string name = shown_.file_of("axis");
    writer_.add_table(name,
                      fmt::format("{}: mean regret ± deviation for each value of {}, {}{}",
                                  shown_.label, plan_.axis->option, writer_.extent(), fitted_),
                      std::move(people_), machines_);
    if (!lines_.empty()) {
      add_picture(name);
    }
  }

 private:
  TableRow headings() const {
    TableRow row{"policy"};
    row.insert(row.end(), plan_.axis->values.begin(), plan_.axis->values.end());
    return row;
  }

  // The x coordinate of a value of the axis: the number itself, or the index of a text.
  double x_of(const std::string& value) const {
    if (has_numbers_) {
      return as_number(value).value_or(0.0);
    }
    return static_cast<double>(std::ranges::find(plan_.axis->values, value) -
                               plan_.axis->values.begin());
  }

  std::vector<LinePolicy> line_policies() const {
    std::vector<LinePolicy> all;
    for (const std::string& policy : plan_.policies) {
      if (!plan_.lines) {
        all.push_back({policy, ""});
        continue;
      }
      for (const std::string& value : plan_.lines->values) {
        all.push_back({policy, value});
      }
    }
    return all;
  }

  // The results of one line at one value of the axis; empty if they are missing. In the names of
  // policies the option of the axis precedes that of the lines.
  std::vector<CellResult> results_at(const LinePolicy& line, const std::string& value) const {
    std::string label = line.policy;
    if (!plan_.axis->of_environment) {
      label = with_values({label}, {false, plan_.axis->option, {value}}).front();
    }
    if (plan_.lines) {
      label = with_values({label}, {false, plan_.lines->option, {line.line_value}}).front();
    }
    for (const ShownStudy& other : all_shown_) {
      if (other.study->environment == shown_.study->environment &&
          (!plan_.axis->of_environment || other.study->at == value)) {
        return results_of(other.results, label);
      }
    }
    return {};
  }

  void add_cells(const std::string& line, const std::string& value, const std::string& seeds,
                 double y, const std::optional<double>& deviation) {
    machines_.add_row({shown_.name, shown_.settings, line, plan_.axis->option, value,
                       writer_.rounds(), seeds, number_text(y), digits(deviation)});
  }

  void add_measured(const LinePolicy& from) {
    PlotLine line{from.line_value.empty()
                      ? from.policy
                      : fmt::format("{} = {}", plan_.lines->option, from.line_value),
                  {}};
    TableRow row{line.label};
    for (const std::string& value : plan_.axis->values) {
      const std::vector<CellResult> found = results_at(from, value);
      if (found.empty()) {
        row.emplace_back("-");
        continue;
      }
      const std::vector<double> regrets = regrets_of(found);
      const std::optional<double> deviation = standard_deviation(regrets);
      line.points.push_back({x_of(value), mean(regrets), deviation.value_or(0.0)});
      row.push_back(with_deviation(mean(regrets), deviation));
      add_cells(line.label, value, std::to_string(regrets.size()), mean(regrets), deviation);
    }
    people_.add_row(row);
    line.wide = !plan_.lines && from.policy == plan_.policies.front();
    if (!line.points.empty()) {
      lines_.push_back(std::move(line));
    }
  }

  // Curves of the theorem's form. Their one factor is fitted by least squares to all points of the
  // first line.
  void add_references() {
    const PlotLine measured = lines_.front();
    double products = 0.0;
    double squares = 0.0;
    for (const PlotPoint& point : measured.points) {
      products += point.y * std::sqrt(point.x);
      squares += point.x;
    }
    const double factor = squares > 0.0 ? products / squares : 0.0;
    fitted_ = fmt::format(". c = {:.4g}, by least squares of c sqrt({}) over all points of {}",
                          factor, plan_.axis->option, measured.label);
    for (const std::string& reference : plan_.references) {
      const bool of_users = reference == "sqrt-users" && plan_.axis->option != "users";
      PlotLine line{
          fmt::format("c sqrt({})", of_users ? "users" : plan_.axis->option), {}, true, of_users};
      for (const std::string& value : plan_.axis->values) {
        const double x = x_of(value);
        line.points.push_back({x, factor * std::sqrt(of_users ? users_in(shown_) : x)});
      }
      add_beside(std::move(line));
    }
  }

  void add_published(const PublishedLine& published) {
    PlotLine line{published.label, {}, true};
    for (std::size_t i = 0; i < published.at.size(); ++i) {
      line.points.push_back({x_of(published.at[i]), published.values[i]});
    }
    add_beside(std::move(line));
  }

  // Adds a line that was not measured.
  void add_beside(PlotLine line) {
    TableRow row{line.label};
    for (const std::string& value : plan_.axis->values) {
      const auto found = std::ranges::find(line.points, x_of(value), &PlotPoint::x);
      row.push_back(found == line.points.end() ? "-" : fmt::format("{:.0f}", found->y));
      if (found != line.points.end()) {
        add_cells(line.label, value, "", found->y, std::nullopt);
      }
    }
    people_.add_row(row);
    lines_.push_back(std::move(line));
  }

  void add_picture(const std::string& name) {
    PlotTicks ticks;
    for (const std::string& value : plan_.axis->values) {
      ticks.emplace_back(value, x_of(value));
    }
    const PlotFrame frame{.title = fmt::format("{}: {}{}", plan_.title, shown_.label,
                                               seeds_text(plan_.options.seeds)),
                          .x = plan_.axis->option,
                          .y = fmt::format("regret of {} rounds", plan_.options.rounds),
                          .log_x = plan_.log_axis && has_numbers_,
                          .ticks = ticks};
    writer_.add_picture(
        name, fmt::format("{}: {}; {}{}", shown_.label, plan_.title, writer_.extent(), fitted_),
        [&] { draw_lines(writer_.folder(), name, frame, lines_); });
  }

  const Plan& plan_;
  const std::vector<ShownStudy>& all_shown_;
  const ShownStudy& shown_;
  SectionWriter& writer_;
  bool has_numbers_;  // all values of the axis are numbers
  TextTable people_;
  TextTable machines_;
  std::vector<PlotLine> lines_;
  std::string fitted_;  // how the references were fitted, for captions
};

// How far the order of the arms changes along the axis.
void add_rank_table(const FigureInput& input, SectionWriter& writer) {
  const ShownStudy& shown = input.shown.front();
  const Axis& axis = *input.plan.axis;
  TextTable people({axis.option, "rank correlation", "same choice"});
  TextTable machines(
      {"environment", "settings", "rounds", "option", "value", "rank_correlation", "same_choice"});
  const std::uint64_t rounds = std::min(input.plan.options.rounds, kRankRounds);
  for (const RankAgreement& one : input.results.rank_agreement) {
    people.add_row({one.value, fmt::format("{:.4f}", one.correlation),
                    fmt::format("{:.1f} %", 100.0 * one.same_choice)});
    machines.add_row({shown.name, shown.settings, std::to_string(rounds), axis.option, one.value,
                      number_text(one.correlation), number_text(one.same_choice)});
  }
  writer.add_table(
      shown.file_of("order"),
      fmt::format("{}: how far the order of the arms changes with {}: equal states and "
                  "rounds (seed {}, every {}th of the first {} with {} = {}), Spearman's "
                  "correlation with the order at {}",
                  shown.label, axis.option, input.plan.options.first_seed, kRankStride, rounds,
                  axis.option, axis.values.front(), axis.values.front()),
      std::move(people), machines);
}

}  // namespace

void add_axis_figure(const FigureInput& input, SectionWriter& writer) {
  std::vector<std::string> drawn;
  for (const ShownStudy& shown : input.shown) {
    if (std::ranges::count(drawn, shown.study->environment) == 0) {
      drawn.push_back(shown.study->environment);
      AxisFigure(input, shown, writer).add();
    }
  }
  // The ranks are those of the plan's first study.
  const bool has_first =
      !input.shown.empty() && input.shown.front().study == &input.results.studies.front().study;
  if (has_first && !input.results.rank_agreement.empty()) {
    add_rank_table(input, writer);
  }
}

}  // namespace mcnb
