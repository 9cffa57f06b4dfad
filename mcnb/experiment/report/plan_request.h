#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/plan/plan.h"

namespace mcnb {

// What was asked of one plan: the text of its file, and the values that replace those of the file.
struct PlanRequest {
  std::string name;                       // of the plan, or the path of its file, as it was typed
  std::string text;                       // contents of the plan's file
  std::vector<std::string> environments;  // empty: those of the plan
  std::vector<std::string> policies;      // empty: those of the plan
  OptionValues settings;                  // added to those of the plan
  std::optional<std::uint64_t> rounds;
  std::optional<std::uint64_t> seeds;
  std::optional<std::uint64_t> first_seed;
  bool tune = false;
  std::string command;  // that asked for it, for people
};

// The plan with the values of the request. A tuned plan has "-tuned" behind its name if it has a
// grid. Throws Error (kUsage) as read_plan does, and for values that the plan cannot have.
Plan requested_plan(const PlanRequest& request);

// The plan's settings that change one of its environments, without its axis: "a=1 b=2".
std::string settings_of(const Plan& plan);

// The section of the page that a plan fills, and its files: the name of the plan and its settings
// other than defaults. A later request with the same key replaces the section.
std::string page_key(const Plan& plan);

// The request with the environments of the earlier one added, if the two differ only in their
// environments and command: people may run a plan data set by data set. Otherwise the request
// itself.
PlanRequest joined(PlanRequest request, const PlanRequest& earlier);

}  // namespace mcnb
