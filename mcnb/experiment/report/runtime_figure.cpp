#include "mcnb/experiment/plot/line_plot.h"
#include "mcnb/experiment/report/figures.h"

namespace mcnb {
namespace {

constexpr const char* kHowTimed =
    "Seconds are those of the wall clock, in choosing and learning alone, without the "
    "environment's; every run has one thread. They depend on the machine and the time of each "
    "run. Runs at the same time (all runs, without --jobs 1) slow each other down: ratios say more "
    "than seconds";

void add_picture(const FigureInput& input, const ShownStudy& shown, SectionWriter& writer) {
  std::vector<PlotLine> lines;
  for (const PolicySummary& summary : shown.summaries) {
    lines.push_back(
        {summary.policy, {{summary.seconds, summary.regret, summary.deviation.value_or(0.0)}}});
    lines.back().wide = summary.policy == shown.first();
  }
  const ExperimentOptions& options = input.plan.options;
  const PlotFrame frame{
      .title = fmt::format("Time of {} rounds against their regret: {}{}", options.rounds,
                           picture_title(input, shown), seeds_text(options.seeds)),
      .x = "seconds to choose and to learn (mean over the seeds)",
      .y = "regret",
      .log_x = true,
      .only_points = true};
  const std::string name = shown.file_of("runtime");
  writer.add_picture(name,
                     fmt::format("{}: {}. {}. Bars: one deviation of the regret", shown.label,
                                 writer.extent(), kHowTimed),
                     [&] { draw_lines(writer.folder(), name, frame, lines); });
}

// Two policies of a published line "A / B": how many times the seconds of B policy A takes.
struct PolicyPair {
  const PolicySummary* one = nullptr;
  const PolicySummary* other = nullptr;
};

PolicyPair pair_of(const PublishedLine& line, const ShownStudy& shown) {
  const std::size_t slash = line.label.find(" / ");
  if (slash == std::string::npos) {
    return {};
  }
  return {shown.summary_of(line.label.substr(0, slash)),
          shown.summary_of(line.label.substr(slash + 3))};
}

void add_time_ratios(const FigureInput& input, SectionWriter& writer) {
  TextTable people({"environment", "policies", "seconds", "ratio", "ratio in the paper"});
  TextTable machines({"environment", "settings", "rounds", "seeds", "policy", "other", "seconds",
                      "other_seconds", "ratio", "published_ratio"});
  for (const PublishedLine& line : input.plan.published) {
    for (const ShownStudy& shown : input.shown) {
      const auto [one, other] = pair_of(line, shown);
      if (one == nullptr || other == nullptr) {
        continue;
      }
      const double ratio = one->seconds / other->seconds;
      const std::optional<double> published = published_at(line, shown, writer);
      people.add_row(
          {shown.label, line.label, fmt::format("{:.3g} / {:.3g}", one->seconds, other->seconds),
           fmt::format("{:.2f}", ratio), published ? fmt::format("{:.1f}", *published) : "-"});
      machines.add_row({shown.name, shown.settings, writer.rounds(), writer.seeds(), one->policy,
                        other->policy, number_text(one->seconds), number_text(other->seconds),
                        number_text(ratio), digits(published)});
    }
  }
  if (people.row_count() > 0) {
    writer.add_table(
        file_of_all(input, "times"),
        fmt::format("Time of one policy over that of another: {}. {}", writer.extent(), kHowTimed),
        std::move(people), machines);
  }
}

}  // namespace

void add_runtime_figure(const FigureInput& input, SectionWriter& writer) {
  for (const ShownStudy& shown : input.shown) {
    add_picture(input, shown, writer);
  }
  add_time_ratios(input, writer);
  add_winners(input, writer);
  for (const ShownStudy& shown : input.shown) {
    add_policies(shown, writer);
  }
}

}  // namespace mcnb
