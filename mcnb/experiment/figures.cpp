#include "mcnb/experiment/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/experiment/plot.h"
#include "mcnb/experiment/report.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' ? c : '_';
  }
  return name;
}

std::string with_deviation(double value, const std::optional<double>& deviation) {
  return deviation ? fmt::format("{:.0f} ± {:.0f}", value, *deviation)
                   : fmt::format("{:.0f}", value);
}

std::string interval_text(const std::optional<PairedComparison>& comparison) {
  return comparison ? fmt::format("{:+.0f} [{:+.0f}, {:+.0f}]", comparison->difference,
                                  comparison->low, comparison->high)
                    : "-";
}

std::string p_text(const std::optional<PairedComparison>& comparison) {
  if (!comparison) {
    return "-";
  }
  return comparison->p_value < 0.0001 ? "< 0.0001" : fmt::format("{:.4f}", comparison->p_value);
}

class SectionMaker {
 public:
  SectionMaker(const fs::path& folder, const Plan& plan, const PlanResults& results)
      : folder_(folder), plan_(plan), results_(results) {
    section_.name = plan.name;
    section_.title = plan.title;
  }

  Section make() {
    for (const std::string& failure : results_.failures) {
      section_.notes.push_back("failed: " + failure);
    }
    for (const PublishedLine& line : plan_.published) {
      if (line.rounds != 0 && line.rounds != plan_.options.rounds) {
        section_.notes.push_back(
            fmt::format("{}: published for {} rounds, not shown here", line.label, line.rounds));
      }
    }
    for (const StudyResults& study : results_.studies) {
      const OptionValues options = all_options(study.study.experiment.environment);
      if (options.contains("users")) {
        users_ = as_number(options.at("users")).value_or(1.0);
      }
      if (study.complete()) {
        complete_.push_back(&study);
      } else {
        section_.notes.push_back(fmt::format("{}: {} runs are missing; the same command goes on",
                                             name_of(study), study.missing));
      }
    }
    if (plan_.figure == Figure::kAxis) {
      axis_figures();
    } else {
      for (const StudyResults* study : complete_) {
        plan_.figure == Figure::kRuntime ? runtime_figure(*study) : curves_figure(*study);
      }
      winners();
      for (const StudyResults* study : complete_) {
        policies_table(*study);
      }
    }
    chosen_options();
    curves_file();
    return std::move(section_);
  }

 private:
  static std::string name_of(const StudyResults& study) {
    return study.study.at.empty() ? study.study.environment
                                  : study.study.environment + " at " + study.study.at;
  }

  void add_table(const std::string& name, const std::string& caption, Table table) {
    write_text_file(folder_ / (name + ".csv"), table.csv());
    section_.tables.push_back({name, caption, std::move(table)});
  }

  template <class Draw>
  void add_picture(const std::string& name, const std::string& caption, const Draw& draw) {
    try {
      draw();
      section_.pictures.push_back({name, caption});
    } catch (const Error& error) {
      section_.notes.push_back(fmt::format("no picture {}: {}", name, error.what()));
    }
  }

  void curves_figure(const StudyResults& study) {
    const std::string name = "regret-" + file_name(study.study.environment);
    add_picture(
        name,
        study.study.experiment.description.empty()
            ? study.study.environment
            : fmt::format("{}: {}", study.study.environment, study.study.experiment.description),
        [&] {
          draw_plot(folder_, study.study.experiment, study.results, name, study.study.environment);
        });
  }

  void runtime_figure(const StudyResults& study) {
    std::vector<PlotLine> lines;
    for (const PolicySummary& summary : summarise(study.study.experiment, study.results)) {
      lines.push_back(
          {summary.policy,
           {{std::max(summary.seconds, 1e-3), summary.regret, summary.deviation.value_or(0.0)}}});
    }
    const std::string name = "runtime-" + file_name(study.study.environment);
    add_picture(name, study.study.environment, [&] {
      draw_lines(folder_, name,
                 {.title = fmt::format("Time of {} rounds against their regret: {}",
                                       plan_.options.rounds, study.study.environment),
                  .x = "seconds",
                  .y = "regret",
                  .log_x = true,
                  .named_points = true},
                 lines);
    });
  }

  // The first policy of the plan beside the best of the others, in every environment.
  void winners() {
    if (complete_.empty() || complete_.front()->study.experiment.policies.size() < 2) {
      return;
    }
    const std::string first = complete_.front()->study.experiment.policies.front().label;
    Table table({"environment", first, "best other", "its regret", "difference [95 %]", "p-value",
                 "gain", "gain in the paper"});
    for (const StudyResults* study : complete_) {
      const std::vector<PolicySummary> all = summarise(study->study.experiment, study->results);
      const PolicySummary* best = nullptr;
      for (const PolicySummary& summary : all) {
        const bool playing = summary.policy != "oracle" && &summary != &all.front();
        if (playing && (best == nullptr || summary.regret < best->regret)) {
          best = &summary;
        }
      }
      if (best == nullptr) {
        continue;
      }
      const auto difference = compare_pairs(regrets_of(results_of(study->results, first)),
                                            regrets_of(results_of(study->results, best->policy)));
      table.add_row({study->study.environment,
                     with_deviation(all.front().regret, all.front().deviation), best->policy,
                     with_deviation(best->regret, best->deviation), interval_text(difference),
                     p_text(difference),
                     fmt::format("{:+.1f} %", 100.0 * (best->regret - all.front().regret) /
                                                  std::max(best->regret, 1e-9)),
                     published_gain(study->study.environment)});
    }
    add_table("winners",
              fmt::format("{} beside the best of the other methods (chosen after the fact, which "
                          "favours that method): mean regret ± deviation, paired difference",
                          first),
              std::move(table));
  }

  std::string published_gain(const std::string& environment) const {
    for (const PublishedLine& line : plan_.published) {
      for (std::size_t i = 0; i < line.at.size(); ++i) {
        if (line.label == "gain" && line.at[i] == parse_environment(environment).name) {
          return fmt::format("{:+.1f} %", line.values[i]);
        }
      }
    }
    return "-";
  }

  void policies_table(const StudyResults& study) {
    Table table({"policy", "regret", "deviation", "against the first [95 %]", "p-value", "seconds",
                 "training steps", "adaptation steps", "memory MiB"});
    for (const PolicySummary& summary : summarise(study.study.experiment, study.results)) {
      table.add_row({summary.policy, fmt::format("{:.1f}", summary.regret),
                     summary.deviation ? fmt::format("{:.1f}", *summary.deviation) : "-",
                     interval_text(summary.against_first), p_text(summary.against_first),
                     fmt::format("{:.2f}", summary.seconds),
                     fmt::format("{:.0f}", summary.training_steps),
                     fmt::format("{:.0f}", summary.adaptation_steps),
                     fmt::format("{:.1f}", summary.memory_bytes / (1024.0 * 1024.0))});
    }
    add_table(
        "policies-" + file_name(name_of(study)),
        fmt::format(
            "{}: {} rounds, seeds {} to {}", name_of(study), study.study.experiment.options.rounds,
            study.study.experiment.options.first_seed,
            study.study.experiment.options.first_seed + study.study.experiment.options.seeds - 1),
        std::move(table));
  }

  // Where a value of the axis lies in the picture.
  double place_of(const std::string& value, bool numbers) const {
    if (numbers) {
      return as_number(value).value_or(0.0);
    }
    return static_cast<double>(std::ranges::find(plan_.axis->values, value) -
                               plan_.axis->values.begin());
  }

  static std::optional<double> as_number(const std::string& text) {
    double value = 0.0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failed == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                     : std::nullopt;
  }

  void axis_figures() {
    for (const std::string& environment : plan_.environments) {
      axis_figure(environment);
    }
    if (plan_.order_of_arms) {
      order_table();
    }
  }

  // The results of one policy at one value of the axis; none where they are missing.
  std::vector<CellResult> results_at(const std::string& environment, const std::string& policy,
                                     const std::string& value) const {
    for (const StudyResults* study : complete_) {
      if (study->study.environment == environment &&
          (!plan_.axis->of_environment || study->study.at == value)) {
        const std::string label =
            plan_.axis->of_environment
                ? policy
                : with_values({policy}, {false, plan_.axis->option, {value}}).front();
        return results_of(study->results, label);
      }
    }
    return {};
  }

  // The policies that a line is drawn for: with every value of plan.lines. The options of the axis
  // come before those of the lines in their names.
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

  void axis_figure(const std::string& environment) {
    const bool numbers = std::ranges::all_of(
        plan_.axis->values, [](const std::string& value) { return as_number(value).has_value(); });
    std::vector<PlotLine> lines;
    std::vector<std::string> headings{"policy"};
    headings.insert(headings.end(), plan_.axis->values.begin(), plan_.axis->values.end());
    Table table(headings);
    for (const auto& [policy, line_value] : line_policies()) {
      PlotLine line{
          line_value.empty() ? policy : fmt::format("{} = {}", plan_.lines->option, line_value),
          {}};
      std::vector<std::string> row{line.label};
      for (const std::string& value : plan_.axis->values) {
        const std::vector<CellResult> found = at_line(environment, policy, line_value, value);
        if (found.empty()) {
          row.emplace_back("-");
          continue;
        }
        const std::vector<double> regrets = regrets_of(found);
        const std::optional<double> deviation = standard_deviation(regrets);
        line.points.push_back({place_of(value, numbers), mean(regrets), deviation.value_or(0.0)});
        row.push_back(with_deviation(mean(regrets), deviation));
      }
      table.add_row(row);
      if (!line.points.empty()) {
        lines.push_back(std::move(line));
      }
    }
    add_references(lines, table, numbers);
    const std::string name = "axis-" + file_name(environment);
    add_table(name, fmt::format("{}: regret for each value of {}", environment, plan_.axis->option),
              std::move(table));
    if (lines.empty()) {
      return;
    }
    std::vector<std::pair<std::string, double>> ticks;
    for (const std::string& value : plan_.axis->values) {
      ticks.emplace_back(value, place_of(value, numbers));
    }
    add_picture(name, fmt::format("{}: {}", environment, plan_.title), [&] {
      draw_lines(folder_, name,
                 {.title = fmt::format("{}: {}", plan_.title, environment),
                  .x = plan_.axis->option,
                  .y = fmt::format("regret of {} rounds", plan_.options.rounds),
                  .log_x = plan_.log_axis && numbers,
                  .ticks = ticks},
                 lines);
    });
  }

  std::vector<CellResult> at_line(const std::string& environment, const std::string& policy,
                                  const std::string& line_value, const std::string& value) const {
    if (line_value.empty()) {
      return results_at(environment, policy, value);
    }
    if (plan_.axis->of_environment) {
      const Axis line{false, plan_.lines->option, {line_value}};
      return results_at(environment, with_values({policy}, line).front(), value);
    }
    const Axis along{false, plan_.axis->option, {value}};
    const Axis line{false, plan_.lines->option, {line_value}};
    const std::string label = with_values(with_values({policy}, along), line).front();
    for (const StudyResults* study : complete_) {
      if (study->study.environment == environment) {
        return results_of(study->results, label);
      }
    }
    return {};
  }

  // Curves through the first point of the first line, and what others have published.
  void add_references(std::vector<PlotLine>& lines, Table& table, bool numbers) const {
    const auto add = [&](PlotLine line) {
      std::vector<std::string> row{line.label};
      for (const std::string& value : plan_.axis->values) {
        const auto found = std::ranges::find(line.points, place_of(value, numbers), &PlotPoint::x);
        row.push_back(found == line.points.end() ? "-" : fmt::format("{:.0f}", found->y));
      }
      table.add_row(row);
      lines.push_back(std::move(line));
    };
    const std::vector<PlotLine> measured = lines;
    for (const std::string& reference : plan_.references) {
      if (!numbers || measured.empty()) {
        continue;
      }
      const PlotPoint start = measured.front().points.front();
      const bool of_users = reference == "sqrt-users";
      PlotLine line{fmt::format("c sqrt({})", of_users ? "users" : plan_.axis->option), {}, true};
      for (const std::string& value : plan_.axis->values) {
        const double x = place_of(value, numbers);
        line.points.push_back({x, start.y * std::sqrt(of_users ? users_ : x / start.x)});
      }
      add(std::move(line));
    }
    for (const PublishedLine& published : plan_.published) {
      if (published.rounds != 0 && published.rounds != plan_.options.rounds) {
        continue;
      }
      PlotLine line{published.label, {}, true};
      for (std::size_t i = 0; i < published.at.size(); ++i) {
        line.points.push_back({place_of(published.at[i], numbers), published.values[i]});
      }
      add(std::move(line));
    }
  }

  void order_table() {
    constexpr std::uint64_t kStride = 20;
    constexpr std::uint64_t kMostRounds = 2'000;
    if (plan_.axis->of_environment || complete_.empty()) {
      return;
    }
    Table table({plan_.axis->option, "rank correlation", "same choice"});
    Experiment experiment = complete_.front()->study.experiment;
    experiment.options.rounds = std::min(experiment.options.rounds, kMostRounds);
    for (const OrderOfArms& order :
         compare_orders(experiment, plan_.policies.front(), *plan_.axis, kStride)) {
      table.add_row({order.value, fmt::format("{:.4f}", order.correlation),
                     fmt::format("{:.1f} %", 100.0 * order.same_choice)});
    }
    add_table(
        "order",
        fmt::format("How far the order of the arms changes with {}: the same states and "
                    "rounds (every {}th of the run with {} = {}), Spearman's correlation with "
                    "the order at {}",
                    plan_.axis->option, kStride, plan_.axis->option, plan_.axis->values.front(),
                    plan_.axis->values.front()),
        std::move(table));
  }

  void chosen_options() {
    if (results_.chosen.empty()) {
      return;
    }
    Table table({"environment", "policy", "as it was run", "points tried", "regret in tuning",
                 "steps in tuning"});
    for (const ChosenOptions& chosen : results_.chosen) {
      const bool tuned = chosen.points > 0;
      table.add_row(
          {chosen.at.empty() ? chosen.environment : chosen.environment + " at " + chosen.at,
           chosen.policy, chosen.chosen, tuned ? std::to_string(chosen.points) : "-",
           tuned ? fmt::format("{:.1f}", chosen.regret) : "-",
           tuned ? std::to_string(chosen.steps) : "-"});
    }
    add_table(
        "options",
        fmt::format("Options that tuning chose ({} rounds, seeds {} to {}, never reported), or "
                    "that give as many steps as {}",
                    plan_.tuning.rounds, plan_.tuning.first_seed,
                    plan_.tuning.first_seed + plan_.tuning.seeds - 1,
                    plan_.matched_to.empty() ? "another policy takes" : plan_.matched_to),
        std::move(table));
  }

  void curves_file() const {
    Table table({"environment", "at", "policy", "seed", "round", "regret"});
    for (const StudyResults* study : complete_) {
      for (const CellResult& result : study->results) {
        for (const RegretPoint& point : result.curve) {
          table.add_row({study->study.environment, study->study.at, result.policy,
                         std::to_string(result.seed), std::to_string(point.round),
                         number_text(point.regret)});
        }
      }
    }
    write_text_file(folder_ / "curves.csv", table.csv());
  }

  fs::path folder_;
  const Plan& plan_;
  const PlanResults& results_;
  std::vector<const StudyResults*> complete_;
  double users_ = 1.0;  // where the environments have as many
  Section section_;
};

}  // namespace

Section make_section(const fs::path& folder, const Plan& plan, const PlanResults& results) {
  return SectionMaker(folder, plan, results).make();
}

}  // namespace mcnb
