#include "mcnb/experiment/report/section.h"

#include <algorithm>

#include "mcnb/experiment/report/figures.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

void add_figure(const FigureInput& input, SectionWriter& writer) {
  switch (input.plan.figure) {
    case Figure::kCurves:
      return add_curves_figure(input, writer);
    case Figure::kRuntime:
      return add_runtime_figure(input, writer);
    case Figure::kAxis:
      return add_axis_figure(input, writer);
    case Figure::kBreakdown:
      return add_breakdown_figure(input, writer);
    case Figure::kRun:
      return add_run_figure(input, writer);
  }
}

std::string about_chosen_options(const Plan& plan, bool tuned) {
  std::string text = "Policies that were run with more options than their names say";
  if (!plan.matched_to.empty()) {
    text += fmt::format("; trainings with as many steps as {} took", plan.matched_to);
  }
  if (tuned) {
    text += fmt::format("; chosen by tuning ({} rounds, seeds {} to {}, never reported)",
                        plan.tuning.rounds, plan.tuning.first_seed,
                        plan.tuning.first_seed + plan.tuning.seeds - 1);
  }
  return text;
}

void add_chosen_options(const FigureInput& input, SectionWriter& writer) {
  TextTable people({"environment", "policy", "as it was run", "points tried", "regret in tuning",
                    "steps in tuning"});
  TextTable machines(
      {"environment", "settings", "at", "policy", "chosen", "points", "mean", "steps"});
  bool tuned = false;
  for (const ChosenOptions& chosen : input.results.chosen) {
    const auto of = std::ranges::find_if(input.results.studies, [&](const StudyResults& study) {
      return study.study.environment == chosen.environment && study.study.at == chosen.at;
    });
    if (of == input.results.studies.end()) {
      continue;
    }
    const ShownStudy shown = described(input.plan, of->study);
    const bool is_tuned = chosen.points > 0;
    tuned |= is_tuned;
    people.add_row({name_of(input.plan, shown), chosen.policy, chosen.chosen,
                    is_tuned ? std::to_string(chosen.points) : "-",
                    is_tuned ? fmt::format("{:.1f}", chosen.regret) : "-",
                    is_tuned ? std::to_string(chosen.steps) : "-"});
    machines.add_row({shown.name, shown.settings, chosen.at, chosen.policy, chosen.chosen,
                      is_tuned ? std::to_string(chosen.points) : "",
                      is_tuned ? number_text(chosen.regret) : "",
                      is_tuned ? std::to_string(chosen.steps) : ""});
  }
  writer.add_table(file_of_all(input, "options"), about_chosen_options(input.plan, tuned),
                   std::move(people), machines);
}

std::vector<double> regrets_of(const ShownStudy& shown, const std::string& policy) {
  std::vector<double> regrets;
  for (const CellResult& result : results_of(shown.results, policy)) {
    regrets.push_back(result.regret);
  }
  return regrets;
}

void add_winner(const FigureInput& input, const ShownStudy& shown, SectionWriter& writer) {
  std::vector<const PolicySummary*> ranked;
  for (const PolicySummary& summary : shown.summaries) {
    if (summary.policy != kOracle) {
      ranked.push_back(&summary);
    }
  }
  if (ranked.size() < 2) {
    return;
  }
  std::ranges::stable_sort(ranked, {}, &PolicySummary::regret);
  const std::vector<double> own = regrets_of(shown, ranked[0]->policy);
  const std::vector<double> other = regrets_of(shown, ranked[1]->policy);
  writer.section().winners.push_back(
      {.environment = name_of(input.plan, shown),
       .policy = ranked[0]->policy,
       .regret = ranked[0]->regret,
       .runner_up = ranked[1]->policy,
       .other_regret = ranked[1]->regret,
       .against = own.size() == other.size() ? compare_pairs(other, own) : std::nullopt});
}

void add_curves_file(const FigureInput& input, SectionWriter& writer) {
  TextTable table({"environment", "settings", "at", "policy", "seed", "round", "regret"});
  for (const ShownStudy& shown : input.shown) {
    for (const CellResult& result : shown.results) {
      for (const RegretPoint& point : result.curve) {
        table.add_row({shown.name, shown.settings, shown.study->at, result.policy,
                       std::to_string(result.seed), std::to_string(point.round),
                       number_text(point.regret)});
      }
    }
  }
  writer.add_file(file_of_all(input, "curves") + ".csv", table.csv());
}

}  // namespace

Section make_section(const std::filesystem::path& folder, const Plan& plan,
                     const PlanResults& results) {
  SectionWriter writer(folder, plan);
  for (const PublishedLine& line : plan.published) {
    if (!writer.applies(line)) {
      writer.note(
          fmt::format("{}: published for {} rounds, not shown here", line.label, line.rounds));
    }
  }
  for (const std::string& value : results.left_out) {
    writer.note(value);
  }
  const std::vector<ShownStudy> shown = shown_studies(plan, results, writer);
  const FigureInput input{plan, results, shown};
  add_figure(input, writer);
  for (const ShownStudy& study : shown) {
    add_winner(input, study, writer);
  }
  if (plan.figure != Figure::kRun) {  // whose files say all of this already
    if (!results.chosen.empty()) {
      add_chosen_options(input, writer);
    }
    add_curves_file(input, writer);
  }
  writer.section().seconds = results.seconds;
  writer.section().origins = results.origins;
  return std::move(writer.section());
}

}  // namespace mcnb
