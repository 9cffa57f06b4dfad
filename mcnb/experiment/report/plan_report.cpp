#include "mcnb/experiment/report/plan_report.h"

#include <utility>

#include "mcnb/experiment/report/page_facts.h"

namespace mcnb {
namespace {

// Tells the observer when runs begin and end.
class WatchedRuns {
 public:
  WatchedRuns(ReportObserver& observer, RunControl& control, const ExperimentProgress& progress)
      : observer_(observer) {
    observer_.runs_begin(control, progress);
  }
  ~WatchedRuns() { observer_.runs_end(); }
  WatchedRuns(const WatchedRuns&) = delete;
  WatchedRuns& operator=(const WatchedRuns&) = delete;

 private:
  ReportObserver& observer_;
};

// Notes about runs of other programs, or of several machines.
void note_origins(const CellStore& store, Section& section) {
  const auto& programs = section.origins.programs;
  const bool has_own = programs.contains(store.program());
  if (programs.size() > 1 || (programs.size() == 1 && !has_own)) {
    section.notes.push_back("runs: " + counts_text(programs, "of build") +
                            (has_own ? "" : "; this one is " + store.program()));
  }
  if (const auto& machines = section.origins.machines; machines.size() > 1) {
    section.notes.push_back("runs: " + counts_text(machines, "on") +
                            "; their seconds cannot be compared");
  }
}

}  // namespace

PlanReport report_plan(const Plan& plan, std::vector<Study> studies, const CellStore& store,
                       const PlanReportOptions& options, ReportObserver& observer) {
  RunControl control;
  ExperimentProgress progress;
  PlanReport report;
  if (options.run.cells.stored_only) {
    report.results = run_plan(plan, std::move(studies), store, options.run, control, progress);
  } else {
    {
      const WatchedRuns watched(observer, control, progress);
      report.results = run_plan(plan, std::move(studies), store, options.run, control, progress);
    }
    observer.runs_finished(plan, progress, report.results.seconds);
  }
  report.interrupted = control.stop;
  if (!report.interrupted && !(options.whole_only && !report.results.failures.empty())) {
    report.section = make_section(options.folder, plan, report.results);
    note_origins(store, *report.section);
  }
  return report;
}

}  // namespace mcnb
