#include "mcnb/cli/report_display.h"

#include <fmt/core.h>

#include "mcnb/cli/commands.h"
#include "mcnb/experiment/results/table_numbers.h"

namespace mcnb {

void end_interrupted(std::size_t finished, std::size_t total,
                     const std::string& results) {
  fmt::print(stderr,
             "interrupted: {} of {} runs are finished and saved in {}\n"
             "the same command goes on from there\n",
             finished, total, results);
  throw CLI::RuntimeError(kInterrupted);
}

void ReportDisplay::plan_begins(const Plan& plan) { fmt::print(stderr, "{}\n", plan.name); }

void ReportDisplay::environment_left_out(const std::string& environment, const std::string& why) {
  fmt::print(stderr, "{} is left out: {}\n", environment, why);
}

void ReportDisplay::runs_begin(RunControl& control, const ExperimentProgress& progress) {
  handler_ = std::make_unique<InterruptHandler>(control);
  display_ = std::make_unique<ProgressDisplay>(control, progress);
}

void ReportDisplay::runs_end() noexcept {
  display_.reset();
  handler_.reset();
}

void ReportDisplay::note_runs(const ExperimentProgress& progress) {
  finished_ = progress.cells_done;
  total_ = progress.cells_total;
}

void ReportDisplay::runs_finished(const Plan& plan, const ExperimentProgress& progress,
                                  double seconds) {
  note_runs(progress);
  fmt::print(stderr, "{}: {} runs, {} of them kept from before; one by one they took {}\n",
             plan.name, finished_, progress.cells_kept.load(), duration_text(seconds));
}

void ReportDisplay::section_made(const Section& section, const std::filesystem::path& folder) {
  if (!section.title.empty()) {
    view_.say(fmt::format("\n{}\n\n", section.title));
  }
  std::string explained;  // once for tables that share it
  for (const NamedTable& table : section.tables) {
    if (!table.explanation.empty() && table.explanation != explained) {
      explained = table.explanation;
      view_.say(explained + ".\n\n");
    }
    view_.say(table.caption.empty() ? "" : table.caption + "\n");
    view_.show((section.title.empty() ? "" : section.title + ": ") + table.name, table.for_people,
               table.for_machines.value_or(table.for_people));
    view_.say("\n");
  }
  for (const std::string& note : section.notes) {
    view_.say(fmt::format("note: {}\n", note));
  }
  for (const NamedPicture& picture : section.pictures) {
    view_.say(
        fmt::format("picture  {}.png, .svg, .pdf, -latex.tex\n", (folder / picture.name).string()));
  }
  for (const std::string& file : section.files) {
    view_.say(fmt::format("numbers  {}\n", (folder / file).string()));
  }
}

void ReportDisplay::not_on_page(const std::string& what_and_why) {
  fmt::print(stderr, "not on the page: {}\n", what_and_why);
}

}  // namespace mcnb
