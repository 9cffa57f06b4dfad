#include "mcnb/experiment/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "mcnb/experiment/axis_figures.h"
#include "mcnb/experiment/experiment_policies.h"
#include "mcnb/experiment/plot.h"
#include "mcnb/experiment/section_writer.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

class SectionMaker {
 public:
  SectionMaker(const fs::path& folder, const Plan& plan, const PlanResults& results)
      : plan_(plan), results_(results), writer_(folder, plan) {}

  Section make() {
    for (const PublishedLine& line : plan_.published) {
      if (!writer_.applies(line)) {
        writer_.note(
            fmt::format("{}: published for {} rounds, not shown here", line.label, line.rounds));
      }
    }
    for (const std::string& value : results_.left_out) {
      writer_.note(value);
    }
    for (const StudyResults& study : results_.studies) {
      show(study);
    }
    for (const FailedCell& failure : results_.failures) {
      if (std::ranges::count(named_, &failure) == 0) {
        writer_.note(fmt::format("failed in tuning, and not chosen: {}: {}",
                                 failure.cell.environment.name, failure.why));
      }
    }
    if (plan_.figure == Figure::kAxis) {
      const bool has_first =
          !shown_.empty() && shown_.front().study == &results_.studies.front().study;
      axis_figures(plan_, shown_, has_first ? results_.order : std::vector<OrderOfArms>(), writer_);
    } else {
      for (const Shown& shown : shown_) {
        plan_.figure == Figure::kRuntime ? runtime_figure(shown) : curves_figure(shown);
      }
      if (plan_.figure == Figure::kRuntime) {
        time_ratios();
      }
      winners();
      for (const Shown& shown : shown_) {
        policies_table(shown);
      }
    }
    chosen_options();
    curves_file();
    writer_.section().seconds = results_.seconds;
    writer_.section().origins = results_.origins;
    return std::move(writer_.section());
  }

 private:
  // Takes what can be shown of a study: a policy that failed is left out, and named with its error;
  // where runs are missing that may still come, the study waits for them.
  void show(const StudyResults& from) {
    Shown shown = described(from.study);
    std::size_t missing = 0;
    shown.experiment = from.study.experiment;
    std::erase_if(shown.experiment.policies, [&](const PolicySpec& policy) {
      const std::vector<CellResult> own = results_of(from.results, policy.label);
      const std::size_t lacking = from.study.experiment.options.seeds - own.size();
      if (lacking > 0 && !name_failures(shown, from.study.experiment, policy.label)) {
        missing += lacking;
        return false;
      }
      return lacking > 0;
    });
    if (missing > 0) {
      writer_.note(fmt::format("{}: {} missing; mcnb reproduce goes on", name_of(shown),
                               missing == 1 ? "1 run is" : fmt::format("{} runs are", missing)));
      return;
    }
    if (shown.experiment.policies.empty()) {
      return;
    }
    for (const CellResult& result : from.results) {
      if (std::ranges::count(shown.experiment.policies, result.policy, &PolicySpec::label) > 0) {
        shown.results.push_back(result);
      }
    }
    shown.summaries = summarise(shown.experiment, shown.results);
    shown_.push_back(std::move(shown));
  }

  // Notes what made runs of the policy fail; false where nothing did.
  bool name_failures(const Shown& shown, const Experiment& experiment, const std::string& policy) {
    std::vector<const FailedCell*> found;
    for (const FailedCell& failure : results_.failures) {
      const Cell& cell = failure.cell;
      const std::uint64_t seed = cell.seed - experiment.options.first_seed;  // huge where before
      if (cell.environment.name == experiment.environment.name &&
          cell.environment.options == experiment.environment.options &&
          cell.policy.label == policy && seed < experiment.options.seeds) {
        found.push_back(&failure);
      }
    }
    if (found.empty()) {
      return false;
    }
    const std::string who = policy + ", ";
    const std::string& why = found.front()->why;
    writer_.note(fmt::format("{}: {} failed and is left out: {}{}", name_of(shown), policy,
                             why.starts_with(who) ? why.substr(who.size()) : why,
                             found.size() == 1
                                 ? ""
                                 : fmt::format(" (and {} more seed{})", found.size() - 1,
                                               found.size() == 2 ? "" : "s")));
    named_.insert(named_.end(), found.begin(), found.end());
    return true;
  }

  Shown described(const Study& study) const {
    const EnvironmentSpec& spec = study.experiment.environment;
    OptionValues settings = settings_of(spec);
    if (plan_.axis && plan_.axis->of_environment) {
      settings.erase(plan_.axis->option);
    }
    Shown shown{
        .study = &study,
        .name = spec.name,
        .settings = settings_text(settings, ":"),
        .label = settings.empty() ? spec.name : spec.name + ", " + settings_text(settings, ", ")};
    return shown;
  }

  std::string name_of(const Shown& shown) const {
    return shown.study->at.empty()
               ? shown.label
               : fmt::format("{}, {}={}", shown.label, plan_.axis->option, shown.study->at);
  }

  // The same for what is about all environments, by the plan's settings.
  std::string file_of_all(const std::string& what) const {
    std::vector<EnvironmentSpec> specs;
    for (const StudyResults& study : results_.studies) {
      specs.push_back(study.study.experiment.environment);
    }
    const OptionValues changed = changed_settings(plan_, specs);
    return what + (changed.empty() ? "" : "-" + file_name(settings_text(changed, ":")));
  }

  // What the pictures are of: they travel without the page.
  std::string title_of(const Shown& shown) const {
    return shown.label + (results_.chosen.empty() ? "" : ", tuned") +
           (plan_.matched_to.empty() ? "" : ", as many steps as " + plan_.matched_to);
  }

  void curves_figure(const Shown& shown) {
    const std::string name = shown.file_of("regret");
    const std::string& description = shown.study->experiment.description;
    writer_.add_picture(name,
                        fmt::format("{}: {}{}{}", shown.label, writer_.extent(),
                                    description.empty() ? "" : "; ", description),
                        // All policies, so that each has its colour, whoever is left out.
                        [&] {
                          draw_plot(writer_.folder(), shown.study->experiment, shown.results, name,
                                    title_of(shown));
                        });
    if (shown.summaries.size() < 2 || shown.summary_of(shown.first()) == nullptr) {
      return;
    }
    const std::string other = shown.file_of("difference");
    writer_.add_picture(
        other,
        fmt::format("{}: {}. {}", shown.label, writer_.extent(), about_differences(shown.first())),
        [&] {
          draw_differences(writer_.folder(), shown.study->experiment, shown.results, other,
                           title_of(shown));
        });
  }

  void runtime_figure(const Shown& shown) {
    std::vector<PlotLine> lines;
    for (const PolicySummary& summary : shown.summaries) {
      lines.push_back(
          {summary.policy, {{summary.seconds, summary.regret, summary.deviation.value_or(0.0)}}});
      lines.back().wide = summary.policy == shown.first();
    }
    const std::string name = shown.file_of("runtime");
    writer_.add_picture(name,
                        fmt::format("{}: {}. {}. Bars: one deviation of the regret", shown.label,
                                    writer_.extent(), how_timed()),
                        [&] {
                          draw_lines(
                              writer_.folder(), name,
                              {.title = fmt::format("Time of {} rounds against their regret: {}{}",
                                                    plan_.options.rounds, title_of(shown),
                                                    seeds_text(plan_.options.seeds)),
                               .x = "seconds to choose and to learn (mean over the seeds)",
                               .y = "regret",
                               .log_x = true,
                               .only_points = true},
                              lines);
                        });
  }

  static std::string how_timed() {
    return "Seconds: of the wall clock, in choosing and learning alone, without the environment's; "
           "every run has one thread. They are those of the machine and the time when each run was "
           "made; runs side by side, as all are without --jobs 1, slow each other down: ratios say "
           "more than seconds";
  }

  // Published lines "A / B" of this figure: how many times the seconds of B policy A takes.
  void time_ratios() {
    Table people({"environment", "policies", "seconds", "ratio", "ratio in the paper"});
    Table machines({"environment", "settings", "rounds", "seeds", "policy", "other", "seconds",
                    "other_seconds", "ratio", "published_ratio"});
    for (const PublishedLine& line : plan_.published) {
      const std::size_t slash = line.label.find(" / ");
      for (const Shown& shown : shown_) {
        const PolicySummary* one = shown.summary_of(line.label.substr(0, slash));
        const PolicySummary* other =
            slash == std::string::npos ? nullptr : shown.summary_of(line.label.substr(slash + 3));
        if (one == nullptr || other == nullptr) {
          continue;
        }
        const double ratio = one->seconds / other->seconds;
        const std::optional<double> published = published_at(line, shown);
        people.add_row(
            {shown.label, line.label, fmt::format("{:.3g} / {:.3g}", one->seconds, other->seconds),
             fmt::format("{:.2f}", ratio), published ? fmt::format("{:.1f}", *published) : "-"});
        machines.add_row({shown.name, shown.settings, writer_.rounds(), writer_.seeds(),
                          one->policy, other->policy, number_text(one->seconds),
                          number_text(other->seconds), number_text(ratio), digits(published)});
      }
    }
    if (people.row_count() > 0) {
      writer_.add_table(file_of_all("times"),
                        fmt::format("Time of one policy over that of another: {}. {}",
                                    writer_.extent(), how_timed()),
                        std::move(people), machines);
    }
  }

  // What was published for the environment, with these settings, for as many rounds.
  std::optional<double> published_at(const PublishedLine& line, const Shown& shown) const {
    const auto found = std::ranges::find(line.at, shown.name);
    const OptionValues options = all_options(shown.experiment.environment);
    const bool is_as_published = std::ranges::all_of(line.settings, [&](const auto& setting) {
      const auto option = options.find(setting.first);
      return option != options.end() && option->second == setting.second;
    });
    return writer_.applies(line) && is_as_published && found != line.at.end()
               ? std::optional(line.values[static_cast<std::size_t>(found - line.at.begin())])
               : std::nullopt;
  }

  // The gain is the paper's own method's.
  std::optional<double> published_gain(const Shown& shown) const {
    if (shown.study->experiment.policies.front().name != "mcnb") {
      return std::nullopt;
    }
    for (const PublishedLine& line : plan_.published) {
      if (line.label == "gain") {
        return published_at(line, shown);
      }
    }
    return std::nullopt;
  }

  // The first policy of the plan beside the best of the others, in every environment.
  void winners() {
    if (shown_.empty()) {
      return;
    }
    const std::string first = shown_.front().first();
    const bool published = std::ranges::any_of(
        shown_, [&](const Shown& shown) { return published_gain(shown).has_value(); });
    TableRow headings{"environment",       first,     "best other", "its regret",
                      "difference [95 %]", "p-value", "gain"};
    if (published) {
      headings.emplace_back("gain in the paper");
    }
    Table people(headings);
    Table machines({"environment", "settings", "rounds", "seeds", "policy", "mean", "deviation",
                    "other", "other_mean", "other_deviation", "difference", "low", "high", "p",
                    "gain_percent", "published_gain_percent"});
    for (const Shown& shown : shown_) {
      const PolicySummary* own = shown.summary_of(first);
      const PolicySummary* best = nullptr;
      for (const PolicySummary& summary : shown.summaries) {
        const bool playing = summary.policy != kOracle && &summary != own;
        if (playing && (best == nullptr || summary.regret < best->regret)) {
          best = &summary;
        }
      }
      if (own == nullptr || best == nullptr) {
        continue;
      }
      const std::optional<Difference> difference = shown.against_first(*best);
      const double gain = 100.0 * (best->regret - own->regret) / std::max(best->regret, 1e-9);
      TableRow row{shown.label,
                   with_deviation(own->regret, own->deviation),
                   best->policy,
                   with_deviation(best->regret, best->deviation),
                   difference_text(difference),
                   p_text(difference),
                   percent_text(gain)};
      if (published) {
        row.push_back(percent_text(published_gain(shown)));
      }
      people.add_row(row);
      TableRow cells{shown.name,
                     shown.settings,
                     writer_.rounds(),
                     writer_.seeds(),
                     first,
                     number_text(own->regret),
                     digits(own->deviation),
                     best->policy,
                     number_text(best->regret),
                     digits(best->deviation)};
      add_digits(cells, difference);
      cells.push_back(number_text(gain));
      cells.push_back(digits(published_gain(shown)));
      machines.add_row(cells);
    }
    if (people.row_count() == 0) {
      return;
    }
    writer_.add_table(
        file_of_all("winners"),
        fmt::format("{} beside the best of the other methods (chosen after the fact, which "
                    "favours that method), {}: mean regret ± deviation. {}",
                    first, writer_.extent(), about_differences(first)),
        std::move(people), machines);
  }

  void policies_table(const Shown& shown) {
    Table people({"policy", "regret", "deviation", "difference [95 %]", "p-value", "seconds",
                  "training steps", "adaptation steps", "memory MiB"});
    Table machines({"environment", "settings", "policy", "rounds", "seeds", "mean", "deviation",
                    "difference", "low", "high", "p", "seconds", "training_steps",
                    "adaptation_steps", "memory_bytes"});
    for (const PolicySummary& summary : shown.summaries) {
      const std::optional<Difference> difference = shown.against_first(summary);
      people.add_row({summary.policy, fmt::format("{:.1f}", summary.regret),
                      summary.deviation ? fmt::format("{:.1f}", *summary.deviation) : "-",
                      difference_text(difference), p_text(difference),
                      fmt::format("{:.3g}", summary.seconds),
                      fmt::format("{:.0f}", summary.training_steps),
                      fmt::format("{:.0f}", summary.adaptation_steps),
                      fmt::format("{:.1f}", summary.memory_bytes / (1024.0 * 1024.0))});
      TableRow cells{shown.name,
                     shown.settings,
                     summary.policy,
                     writer_.rounds(),
                     writer_.seeds(),
                     number_text(summary.regret),
                     digits(summary.deviation)};
      add_digits(cells, difference);
      for (const double value : {summary.seconds, summary.training_steps, summary.adaptation_steps,
                                 summary.memory_bytes}) {
        cells.push_back(number_text(value));
      }
      machines.add_row(cells);
    }
    writer_.add_table(
        shown.file_of("policies"),
        fmt::format("{}: {}. {}", shown.label, writer_.extent(), about_differences(shown.first())),
        std::move(people), machines);
  }

  void chosen_options() {
    if (results_.chosen.empty()) {
      return;
    }
    Table people({"environment", "policy", "as it was run", "points tried", "regret in tuning",
                  "steps in tuning"});
    Table machines(
        {"environment", "settings", "at", "policy", "chosen", "points", "mean", "steps"});
    bool tuned = false;
    for (const ChosenOptions& chosen : results_.chosen) {
      const auto of = std::ranges::find_if(results_.studies, [&](const StudyResults& study) {
        return study.study.environment == chosen.environment && study.study.at == chosen.at;
      });
      if (of == results_.studies.end()) {
        continue;
      }
      const Shown shown = described(of->study);
      const bool is_tuned = chosen.points > 0;
      tuned |= is_tuned;
      people.add_row({name_of(shown), chosen.policy, chosen.chosen,
                      is_tuned ? std::to_string(chosen.points) : "-",
                      is_tuned ? fmt::format("{:.1f}", chosen.regret) : "-",
                      is_tuned ? std::to_string(chosen.steps) : "-"});
      machines.add_row({shown.name, shown.settings, chosen.at, chosen.policy, chosen.chosen,
                        is_tuned ? std::to_string(chosen.points) : "",
                        is_tuned ? number_text(chosen.regret) : "",
                        is_tuned ? std::to_string(chosen.steps) : ""});
    }
    writer_.add_table(
        file_of_all("options"),
        "Policies that were run with more options than their names say" +
            (plan_.matched_to.empty()
                 ? ""
                 : fmt::format("; trainings with as many steps as {} took", plan_.matched_to)) +
            (!tuned ? ""
                    : fmt::format("; chosen by tuning ({} rounds, seeds {} to {}, never reported)",
                                  plan_.tuning.rounds, plan_.tuning.first_seed,
                                  plan_.tuning.first_seed + plan_.tuning.seeds - 1)),
        std::move(people), machines);
  }

  void curves_file() const {
    Table table({"environment", "settings", "at", "policy", "seed", "round", "regret"});
    for (const Shown& shown : shown_) {
      for (const CellResult& result : shown.results) {
        for (const RegretPoint& point : result.curve) {
          table.add_row({shown.name, shown.settings, shown.study->at, result.policy,
                         std::to_string(result.seed), std::to_string(point.round),
                         number_text(point.regret)});
        }
      }
    }
    write_text_file(writer_.folder() / (file_of_all("curves") + ".csv"), table.csv());
  }

  const Plan& plan_;
  const PlanResults& results_;
  SectionWriter writer_;
  std::vector<Shown> shown_;
  std::vector<const FailedCell*> named_;  // that a note is about
};

}  // namespace

Section make_section(const fs::path& folder, const Plan& plan, const PlanResults& results) {
  return SectionMaker(folder, plan, results).make();
}

}  // namespace mcnb
