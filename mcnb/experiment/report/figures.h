#pragma once

#include <vector>

#include "mcnb/experiment/report/section_writer.h"
#include "mcnb/experiment/report/shown_study.h"

namespace mcnb {

// What a figure is made of.
struct FigureInput {
  const Plan& plan;
  const PlanResults& results;
  const std::vector<ShownStudy>& shown;
};

// One function for each kind of figure (`enum class Figure`), each in its own file. It puts the
// pictures and tables of the figure into the section.

// `curves`: regret over the rounds, and its difference to the first policy's; curves_figure.cpp.
void add_curves_figure(const FigureInput& input, SectionWriter& writer);
// `runtime`: seconds against final regret; runtime_figure.cpp.
void add_runtime_figure(const FigureInput& input, SectionWriter& writer);
// `axis`: final regret against the option that the plan varies; axis_figure.cpp.
void add_axis_figure(const FigureInput& input, SectionWriter& writer);
// `breakdown`: seconds of the parts of a round; breakdown_figure.cpp.
void add_breakdown_figure(const FigureInput& input, SectionWriter& writer);
// The comparison of `mcnb run`, with file names that do not depend on the environment;
// run_figure.cpp.
void add_run_figure(const FigureInput& input, SectionWriter& writer);

// Tables that several figures have; policy_tables.cpp.

// The first policy of the plan beside the best of the others, one row for each environment.
void add_winners(const FigureInput& input, SectionWriter& writer);
// All policies in one environment.
void add_policies(const ShownStudy& shown, SectionWriter& writer);

// "winners", with the plan's settings that are not defaults: a name for files about all
// environments.
std::string file_of_all(const FigureInput& input, const std::string& what);
// The label, and whether policies were tuned or matched. Pictures need it because people pass them
// on without the page.
std::string picture_title(const FigureInput& input, const ShownStudy& shown);
// What was published for this environment with these settings and as many rounds.
std::optional<double> published_at(const PublishedLine& line, const ShownStudy& shown,
                                   const SectionWriter& writer);

}  // namespace mcnb
