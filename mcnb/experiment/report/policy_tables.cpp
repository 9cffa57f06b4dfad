#include <algorithm>

#include "mcnb/experiment/report/figures.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

// Percent less regret than the best other policy, as the paper reports it for its own method.
std::optional<double> published_gain(const FigureInput& input, const ShownStudy& shown,
                                     const SectionWriter& writer) {
  if (shown.study->experiment.policies.front().name != "mcnb") {
    return std::nullopt;
  }
  for (const PublishedLine& line : input.plan.published) {
    if (line.label == "gain") {
      return published_at(line, shown, writer);
    }
  }
  return std::nullopt;
}

// The policy with the least regret, without the first and the oracle; nullptr if there is none.
const PolicySummary* best_other(const ShownStudy& shown) {
  const PolicySummary* best = nullptr;
  for (const PolicySummary& summary : shown.summaries) {
    const bool competes = summary.policy != kOracle && summary.policy != shown.first();
    if (competes && (best == nullptr || summary.regret < best->regret)) {
      best = &summary;
    }
  }
  return best;
}

ResultRow result_row(const ShownStudy& shown, const PolicySummary& summary,
                     const std::optional<Difference>& difference, SectionWriter& writer) {
  const auto policy =
      std::ranges::find(shown.experiment.policies, summary.policy, &PolicySpec::label);
  const ExperimentOptions& options = shown.experiment.options;
  return {.plan = writer.section().name,
          .environment = shown.name,
          .settings = shown.settings,
          .policy = summary.policy,
          .rounds = options.rounds,
          .seeds = options.seeds,
          .mean = summary.regret,
          .deviation = summary.deviation,
          .difference = difference,
          .seconds = summary.seconds,
          .training_steps = summary.training_steps,
          .adaptation_steps = summary.adaptation_steps,
          .memory_bytes = summary.memory_bytes,
          .as_run = written(*policy)};
}

}  // namespace

std::string file_of_all(const FigureInput& input, const std::string& what) {
  std::vector<EnvironmentSpec> specs;
  for (const StudyResults& study : input.results.studies) {
    specs.push_back(study.study.experiment.environment);
  }
  const OptionValues changed = changed_settings(input.plan, specs);
  return what + (changed.empty() ? "" : "-" + file_name(settings_text(changed, ":")));
}

std::string picture_title(const FigureInput& input, const ShownStudy& shown) {
  const std::string& model = input.plan.matched_to;
  const bool tuned = std::ranges::any_of(
      input.results.chosen, [](const ChosenOptions& chosen) { return chosen.points > 0; });
  return shown.label + (tuned ? ", tuned" : "") +
         (model.empty() ? "" : ", as many steps as " + model);
}

std::optional<double> published_at(const PublishedLine& line, const ShownStudy& shown,
                                   const SectionWriter& writer) {
  const auto found = std::ranges::find(line.at, shown.name);
  const OptionValues options = all_options(shown.experiment.environment);
  const bool has_settings = std::ranges::all_of(line.settings, [&](const auto& setting) {
    const auto option = options.find(setting.first);
    return option != options.end() && option->second == setting.second;
  });
  return writer.applies(line) && has_settings && found != line.at.end()
             ? std::optional(line.values[static_cast<std::size_t>(found - line.at.begin())])
             : std::nullopt;
}

void add_winners(const FigureInput& input, SectionWriter& writer) {
  if (input.shown.empty()) {
    return;
  }
  const std::string first = input.shown.front().first();
  const bool published = std::ranges::any_of(input.shown, [&](const ShownStudy& shown) {
    return published_gain(input, shown, writer).has_value();
  });
  TableRow headings{"environment",       first,     "best other", "its regret",
                    "difference [95 %]", "p-value", "Holm's p",   "gain"};
  if (published) {
    headings.emplace_back("gain in the paper");
  }
  TextTable people(headings);
  TextTable machines({"environment", "settings", "rounds", "seeds", "policy", "mean", "deviation",
                      "other", "other_mean", "other_deviation", "difference", "low", "high", "p",
                      "holm_p", "gain_percent", "published_gain_percent"});
  for (const ShownStudy& shown : input.shown) {
    const PolicySummary* own = shown.summary_of(first);
    const PolicySummary* best = best_other(shown);
    if (own == nullptr || best == nullptr) {
      continue;
    }
    const std::optional<Difference> difference = shown.against_first(*best);
    const std::optional<double> paper = published_gain(input, shown, writer);
    const double gain = 100.0 * (best->regret - own->regret) / std::max(best->regret, 1e-9);
    TableRow row{shown.label, with_deviation(own->regret, own->deviation), best->policy,
                 with_deviation(best->regret, best->deviation), difference_text(difference)};
    row.insert(row.end(), {p_text(difference), holm_text(difference), percent_text(gain)});
    if (published) {
      row.push_back(percent_text(paper));
    }
    people.add_row(row);
    TableRow cells{shown.name,     shown.settings, writer.rounds(),
                   writer.seeds(), first,          number_text(own->regret)};
    cells.insert(cells.end(), {digits(own->deviation), best->policy, number_text(best->regret),
                               digits(best->deviation)});
    add_digits(cells, difference);
    cells.insert(cells.end(), {number_text(gain), digits(paper)});
    machines.add_row(cells);
  }
  if (people.row_count() == 0) {
    return;
  }
  writer.add_table(
      file_of_all(input, "winners"),
      fmt::format("{} beside the best of the other methods (chosen after the fact, which "
                  "favours that method), {}: mean regret ± deviation",
                  first, writer.extent()),
      std::move(people), machines, about_differences(first));
}

void add_policies(const ShownStudy& shown, SectionWriter& writer) {
  TextTable people({"policy", "regret", "deviation", "difference [95 %]", "p-value", "Holm's p",
                    "seconds", "training steps", "adaptation steps", "memory MiB"});
  TextTable machines({"environment", "settings", "policy", "rounds", "seeds", "mean", "deviation",
                      "difference", "low", "high", "p", "holm_p", "seconds", "training_steps",
                      "adaptation_steps", "memory_bytes"});
  for (const PolicySummary& summary : shown.summaries) {
    const std::optional<Difference> difference = shown.against_first(summary);
    people.add_row({summary.policy, fmt::format("{:.1f}", summary.regret),
                    summary.deviation ? fmt::format("{:.1f}", *summary.deviation) : "-",
                    difference_text(difference), p_text(difference), holm_text(difference),
                    fmt::format("{:.3g}", summary.seconds),
                    fmt::format("{:.0f}", summary.training_steps),
                    fmt::format("{:.0f}", summary.adaptation_steps),
                    fmt::format("{:.1f}", summary.memory_bytes / (1024.0 * 1024.0))});
    TableRow cells{shown.name,      shown.settings, summary.policy,
                   writer.rounds(), writer.seeds(), number_text(summary.regret)};
    cells.push_back(digits(summary.deviation));
    add_digits(cells, difference);
    for (const double value : {summary.seconds, summary.training_steps, summary.adaptation_steps,
                               summary.memory_bytes}) {
      cells.push_back(number_text(value));
    }
    machines.add_row(cells);
    writer.section().results.push_back(result_row(shown, summary, difference, writer));
  }
  writer.add_table(shown.file_of("policies"), fmt::format("{}: {}", shown.label, writer.extent()),
                   std::move(people), machines, about_differences(shown.first()));
}

}  // namespace mcnb
