#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/cli/tables.h"
#include "mcnb/experiment/report/plan_request.h"
#include "mcnb/experiment/report/request_memory.h"

namespace mcnb {

// The flags of `mcnb reproduce` and `mcnb report` that choose plans and replace their values, as
// they were typed.
struct PlanFlags {
  std::vector<std::string> names;
  std::string environments;
  std::string policies;
  std::vector<std::string> settings;
  std::string rounds;
  std::string seeds;
  std::string first_seed;
  TableFlags tables;
  bool tune = false;
  std::string data;
  std::string output = "results/paper";
  std::string results;

  // True if a flag replaces a value of the plans.
  bool change_plans() const;
};

void add_plan_flags(CLI::App& command, PlanFlags& flags, const std::string& about_tuning);

// Makes the parser refuse empty values of these flags.
void refuse_empty(CLI::App& command, const std::vector<std::string>& flags);

// The command line of this program, for the page; addresses of databases are without passwords.
std::string command_line();

// Texts of plans by the stems of their file names, for plans whose files are missing.
using PlanTexts = std::map<std::string, std::string>;

// The requests that the flags stand for. The name `all` stands for the paper's plans; a plan
// without any of the given environments, or of the given policies, is then left out and named on
// standard error. Throws Error (kUsage) for flags that a plan cannot have, two requests for one
// section of the page, and if no plan is left.
std::vector<PlanRequest> requests_of(const PlanFlags& flags, const PlanTexts& texts = {});

}  // namespace mcnb
