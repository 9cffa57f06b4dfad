#include "mcnb/experiment/plot/curve_plot.h"
#include "mcnb/experiment/report/figures.h"

namespace mcnb {

void add_run_figure(const FigureInput& input, SectionWriter& writer) {
  for (const ShownStudy& shown : input.shown) {
    TextTable table = summary_for_people(shown.summaries);
    writer.add_file("table.txt", table.aligned());
    writer.add_table("summary", "", std::move(table), summary_for_machines(shown.summaries));
    writer.add_file("curves.csv", curves_table(shown.results).csv());
    writer.add_file("results.json",
                    experiment_json(shown.experiment, shown.summaries, shown.results));
    writer.add_picture("regret", "",
                       [&] { draw_regrets(writer.folder(), shown.experiment, shown.results); });
  }
}

}  // namespace mcnb
