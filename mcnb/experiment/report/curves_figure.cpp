#include "mcnb/experiment/plot/curve_plot.h"
#include "mcnb/experiment/report/figures.h"

namespace mcnb {
namespace {

void add_regret_picture(const FigureInput& input, const ShownStudy& shown, SectionWriter& writer) {
  const std::string name = shown.file_of("regret");
  const std::string& description = shown.study->experiment.description;
  writer.add_picture(
      name,
      fmt::format("{}: {}; mean regret, in bands of one standard deviation{}{}", shown.label,
                  writer.extent(), description.empty() ? "" : "; ", description),
      // All policies of the study, so that each keeps its colour if one is left out.
      [&] {
        draw_regrets(writer.folder(), shown.study->experiment, shown.results, name,
                     picture_title(input, shown));
      });
}

void add_difference_picture(const FigureInput& input, const ShownStudy& shown,
                            SectionWriter& writer) {
  const std::string name = shown.file_of("difference");
  writer.add_picture(
      name,
      fmt::format("{}: {}; how much more regret than {} the others have, seed by seed, with 95 % "
                  "intervals",
                  shown.label, writer.extent(), shown.first()),
      [&] {
        draw_differences(writer.folder(), shown.study->experiment, shown.results, name,
                         picture_title(input, shown));
      });
}

}  // namespace

void add_curves_figure(const FigureInput& input, SectionWriter& writer) {
  for (const ShownStudy& shown : input.shown) {
    add_regret_picture(input, shown, writer);
    if (shown.summaries.size() > 1 && shown.summary_of(shown.first()) != nullptr) {
      add_difference_picture(input, shown, writer);
    }
  }
  add_winners(input, writer);
  for (const ShownStudy& shown : input.shown) {
    add_policies(shown, writer);
  }
}

}  // namespace mcnb
