#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/report/plan_report.h"
#include "mcnb/experiment/report/plan_request.h"

namespace mcnb {

struct ReportOptions {
  std::filesystem::path folder;      // gets report.html, results.csv, and a folder for each plan
  std::shared_ptr<DataSource> data;  // where environments find their data
  std::optional<std::uint64_t> jobs = {};  // runs at the same time; nullopt: as the plan says
  Device device = Device::kCpu;
  bool fresh = false;        // run again what has been run before
  bool stored_only = false;  // run nothing, and remember nothing
  std::string command = {};  // that makes the report, for people
};

struct ReportOutcome {
  std::size_t missing = 0;       // runs
  std::size_t failed = 0;        // runs
  std::size_t without_data = 0;  // plans that have no environment with data on this machine
  bool has_page = false;         // false if there is nothing to show
  bool interrupted = false;      // finished runs are saved; the page lacks this plan
};

// Makes a folder of results. For each request: runs what the store does not have, remembers the
// request, and makes its section. The page then shows all requests that the store remembers, also
// those of earlier calls and of programs that run at the same time. Throws Error as
// report_plan does.
ReportOutcome make_report(const std::vector<PlanRequest>& requests, const CellStore& store,
                          const ReportOptions& options, ReportObserver& observer);

}  // namespace mcnb
