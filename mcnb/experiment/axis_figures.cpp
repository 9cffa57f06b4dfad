#include "mcnb/experiment/axis_figures.h"

#include <algorithm>
#include <cmath>

#include "mcnb/experiment/plot.h"

namespace mcnb {
namespace {

double users_in(const Shown& shown) {
  const OptionValues options = all_options(shown.study->experiment.environment);
  const auto users = options.find("users");
  return users == options.end() ? 1.0 : as_number(users->second).value_or(1.0);
}

class AxisFigures {
 public:
  AxisFigures(const Plan& plan, const std::vector<Shown>& shown,
              const std::vector<OrderOfArms>& order, SectionWriter& writer)
      : plan_(plan), shown_(shown), order_(order), writer_(writer) {}

  void make() {
    std::vector<std::string> drawn;
    for (const Shown& shown : shown_) {
      if (std::ranges::count(drawn, shown.study->environment) == 0) {
        drawn.push_back(shown.study->environment);
        axis_figure(shown);
      }
    }
    if (!order_.empty() && !shown_.empty()) {
      order_table();
    }
  }

 private:
  // Where a value of the axis lies in the picture.
  double place_of(const std::string& value, bool numbers) const {
    if (numbers) {
      return as_number(value).value_or(0.0);
    }
    return static_cast<double>(std::ranges::find(plan_.axis->values, value) -
                               plan_.axis->values.begin());
  }

  // The results of one policy at one value of the axis; none where they are missing. The options of
  // the axis come before those of the lines in the names of policies.
  std::vector<CellResult> at_line(const std::string& environment, const std::string& policy,
                                  const std::string& line_value, const std::string& value) const {
    std::string label = policy;
    if (!plan_.axis->of_environment) {
      label = with_values({label}, {false, plan_.axis->option, {value}}).front();
    }
    if (plan_.lines) {
      label = with_values({label}, {false, plan_.lines->option, {line_value}}).front();
    }
    for (const Shown& shown : shown_) {
      if (shown.study->environment == environment &&
          (!plan_.axis->of_environment || shown.study->at == value)) {
        return results_of(shown.results, label);
      }
    }
    return {};
  }

  // The policies that a line is drawn for: with every value of plan.lines.
  std::vector<std::pair<std::string, std::string>> line_policies() const {
    std::vector<std::pair<std::string, std::string>> all;  // policy, value of lines
    for (const std::string& policy : plan_.policies) {
      if (!plan_.lines) {
        all.emplace_back(policy, "");
        continue;
      }
      for (const std::string& value : plan_.lines->values) {
        all.emplace_back(policy, value);
      }
    }
    return all;
  }

  void axis_figure(const Shown& shown) {
    const bool numbers = std::ranges::all_of(
        plan_.axis->values, [](const std::string& value) { return as_number(value).has_value(); });
    std::vector<PlotLine> lines;
    TableRow headings{"policy"};
    headings.insert(headings.end(), plan_.axis->values.begin(), plan_.axis->values.end());
    Table people(headings);
    Table machines({"environment", "settings", "line", "option", "value", "rounds", "seeds", "mean",
                    "deviation"});
    const auto add_cells = [&](const std::string& line, const std::string& value,
                               const std::string& seeds, double y,
                               const std::optional<double>& deviation) {
      machines.add_row({shown.name, shown.settings, line, plan_.axis->option, value,
                        writer_.rounds(), seeds, number_text(y), digits(deviation)});
    };
    for (const auto& [policy, line_value] : line_policies()) {
      PlotLine line{
          line_value.empty() ? policy : fmt::format("{} = {}", plan_.lines->option, line_value),
          {}};
      TableRow row{line.label};
      for (const std::string& value : plan_.axis->values) {
        const std::vector<CellResult> found =
            at_line(shown.study->environment, policy, line_value, value);
        if (found.empty()) {
          row.emplace_back("-");
          continue;
        }
        const std::vector<double> regrets = regrets_of(found);
        const std::optional<double> deviation = standard_deviation(regrets);
        line.points.push_back({place_of(value, numbers), mean(regrets), deviation.value_or(0.0)});
        row.push_back(with_deviation(mean(regrets), deviation));
        add_cells(line.label, value, std::to_string(regrets.size()), mean(regrets), deviation);
      }
      people.add_row(row);
      line.wide = !plan_.lines && policy == plan_.policies.front();
      if (!line.points.empty()) {
        lines.push_back(std::move(line));
      }
    }
    std::string fitted;
    for (PlotLine& line : reference_lines(shown, lines, numbers, fitted)) {
      TableRow row{line.label};
      for (const std::string& value : plan_.axis->values) {
        const auto found = std::ranges::find(line.points, place_of(value, numbers), &PlotPoint::x);
        row.push_back(found == line.points.end() ? "-" : fmt::format("{:.0f}", found->y));
        if (found != line.points.end()) {
          add_cells(line.label, value, "", found->y, std::nullopt);
        }
      }
      people.add_row(row);
      lines.push_back(std::move(line));
    }
    const std::string name = shown.file_of("axis");
    writer_.add_table(name,
                      fmt::format("{}: mean regret ± deviation for each value of {}, {}{}",
                                  shown.label, plan_.axis->option, writer_.extent(), fitted),
                      std::move(people), machines);
    if (lines.empty()) {
      return;
    }
    PlotTicks ticks;
    for (const std::string& value : plan_.axis->values) {
      ticks.emplace_back(value, place_of(value, numbers));
    }
    writer_.add_picture(
        name, fmt::format("{}: {}; {}{}", shown.label, plan_.title, writer_.extent(), fitted), [&] {
          draw_lines(writer_.folder(), name,
                     {.title = fmt::format("{}: {}{}", plan_.title, shown.label,
                                           seeds_text(plan_.options.seeds)),
                      .x = plan_.axis->option,
                      .y = fmt::format("regret of {} rounds", plan_.options.rounds),
                      .log_x = plan_.log_axis && numbers,
                      .ticks = ticks},
                     lines);
        });
  }

  // Curves of the theorem's form, and what others have published. Says in `fitted` how the first
  // were fitted: their one factor by least squares over all points of the first line.
  std::vector<PlotLine> reference_lines(const Shown& shown, const std::vector<PlotLine>& measured,
                                        bool numbers, std::string& fitted) const {
    std::vector<PlotLine> lines;
    if (numbers && !measured.empty() && !plan_.references.empty()) {
      double products = 0.0;
      double squares = 0.0;
      for (const PlotPoint& point : measured.front().points) {
        products += point.y * std::sqrt(point.x);
        squares += point.x;
      }
      const double factor = squares > 0.0 ? products / squares : 0.0;
      fitted = fmt::format(". c = {:.4g}, by least squares of c sqrt({}) over all points of {}",
                           factor, plan_.axis->option, measured.front().label);
      for (const std::string& reference : plan_.references) {
        const bool of_users = reference == "sqrt-users" && plan_.axis->option != "users";
        PlotLine line{
            fmt::format("c sqrt({})", of_users ? "users" : plan_.axis->option), {}, true, of_users};
        for (const std::string& value : plan_.axis->values) {
          const double x = place_of(value, numbers);
          line.points.push_back({x, factor * std::sqrt(of_users ? users_in(shown) : x)});
        }
        lines.push_back(std::move(line));
      }
    }
    for (const PublishedLine& published : plan_.published) {
      if (!writer_.applies(published)) {
        continue;
      }
      PlotLine line{published.label, {}, true};
      for (std::size_t i = 0; i < published.at.size(); ++i) {
        line.points.push_back({place_of(published.at[i], numbers), published.values[i]});
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

  void order_table() {
    const Shown& shown = shown_.front();
    Table people({plan_.axis->option, "rank correlation", "same choice"});
    Table machines({"environment", "settings", "rounds", "option", "value", "rank_correlation",
                    "same_choice"});
    const std::uint64_t rounds = std::min(plan_.options.rounds, kOrderRounds);
    for (const OrderOfArms& order : order_) {
      people.add_row({order.value, fmt::format("{:.4f}", order.correlation),
                      fmt::format("{:.1f} %", 100.0 * order.same_choice)});
      machines.add_row({shown.name, shown.settings, std::to_string(rounds), plan_.axis->option,
                        order.value, number_text(order.correlation),
                        number_text(order.same_choice)});
    }
    writer_.add_table(
        shown.file_of("order"),
        fmt::format("{}: how far the order of the arms changes with {}: the same states and "
                    "rounds (seed {}, every {}th of the first {} with {} = {}), Spearman's "
                    "correlation with the order at {}",
                    shown.label, plan_.axis->option, plan_.options.first_seed, kOrderStride, rounds,
                    plan_.axis->option, plan_.axis->values.front(), plan_.axis->values.front()),
        std::move(people), machines);
  }

  const Plan& plan_;
  const std::vector<Shown>& shown_;
  const std::vector<OrderOfArms>& order_;
  SectionWriter& writer_;
};

}  // namespace

void axis_figures(const Plan& plan, const std::vector<Shown>& shown,
                  const std::vector<OrderOfArms>& order, SectionWriter& writer) {
  AxisFigures(plan, shown, order, writer).make();
}

}  // namespace mcnb
