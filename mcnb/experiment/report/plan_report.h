#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/report/section.h"
#include "mcnb/experiment/run/cell_store.h"

namespace mcnb {

// Hears how a report proceeds. The command line prints it; by default nothing happens.
class ReportObserver {
 public:
  virtual ~ReportObserver() = default;
  virtual void plan_begins(const Plan&) {}
  virtual void environment_left_out(const std::string& /*environment*/,
                                    const std::string& /*why*/) {}
  // Both arguments live until runs_end, which is also called if the runs throw.
  virtual void runs_begin(RunControl&, const ExperimentProgress&) {}
  virtual void runs_end() noexcept {}
  // `seconds` is the sum over all runs.
  virtual void runs_finished(const Plan&, const ExperimentProgress&, double /*seconds*/) {}
  virtual void section_made(const Section&, const std::filesystem::path& /*folder*/) {}
  virtual void not_on_page(const std::string& /*what_and_why*/) {}
};

struct PlanReportOptions {
  PlanRunOptions run;
  std::filesystem::path folder;  // gets the files of the section
  bool whole_only = false;       // make no section if a run failed
};

struct PlanReport {
  PlanResults results;
  bool interrupted = false;        // the finished runs are saved
  std::optional<Section> section;  // nullopt if the runs were interrupted, and see `whole_only`
};

// Runs one plan, or with run.cells.stored_only finds its finished runs, and makes its section:
// `mcnb run` does this once, make_report for every plan. Throws Error as run_plan and make_section
// do.
PlanReport report_plan(const Plan& plan, std::vector<Study> studies, const CellStore& store,
                       const PlanReportOptions& options, ReportObserver& observer);

}  // namespace mcnb
