#pragma once

#include <memory>
#include <string>

#include "mcnb/cli/progress.h"
#include "mcnb/cli/tables.h"
#include "mcnb/experiment/report/report.h"

namespace mcnb {

// Says on standard error that runs were interrupted, and ends the program with kInterrupted.
[[noreturn]] void end_interrupted(std::size_t finished, std::size_t total,
                                  const std::string& results);

// Shows on the terminal how a report proceeds. While runs last, Ctrl-C stops them.
class ReportDisplay : public ReportObserver {
 public:
  explicit ReportDisplay(const TableFlags& flags = {}) : view_(flags) {}

  // Where everything is shown. Its owner finishes it.
  TableView& view() { return view_; }

  void plan_begins(const Plan& plan) override;
  void environment_left_out(const std::string& environment, const std::string& why) override;
  void runs_begin(RunControl& control, const ExperimentProgress& progress) override;
  void runs_end() noexcept override;
  void runs_finished(const Plan& plan, const ExperimentProgress& progress, double seconds) override;
  // Prints the tables, notes and file names of the section.
  void section_made(const Section& section, const std::filesystem::path& folder) override;
  void not_on_page(const std::string& what_and_why) override;

  // Of the runs of the last plan.
  std::size_t finished() const { return finished_; }
  std::size_t total() const { return total_; }

 protected:
  void note_runs(const ExperimentProgress& progress);

 private:
  TableView view_;
  std::unique_ptr<InterruptHandler> handler_;
  std::unique_ptr<ProgressDisplay> display_;
  std::size_t finished_ = 0;
  std::size_t total_ = 0;
};

}  // namespace mcnb
