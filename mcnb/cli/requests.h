#pragma once

#include <map>
#include <string>
#include <vector>

#include "mcnb/experiment/cell_store.h"
#include "mcnb/experiment/plan.h"

namespace mcnb {

struct ReproduceFlags {
  std::vector<std::string> names;
  std::string environments;
  std::string policies;
  std::vector<std::string> settings;
  std::string rounds;
  std::string seeds;
  std::string first_seed;
  std::string jobs;
  std::string shard;
  std::string output = "results/paper";
  std::string data;
  bool tune = false;
  bool fresh = false;
  bool stored_only = false;
  std::string command;
};

// One plan with the flags that it is run, or reported, with.
struct Request {
  std::string name;
  ReproduceFlags flags;
  std::string text = {};  // of the plan's file when it was run; empty: read it
};

// All that the flags ask for. Of `all`, those plans that have one of the environments and of the
// policies that are given. Throws Error (kUsage) where two of them would be the same place of the
// page, and where none is left.
// Of plans whose files are no more, `texts` may have the text, by their names.
std::vector<Request> requests_of(const ReproduceFlags& flags,
                                 const std::map<std::string, std::string>& texts = {});

// Throws Error as read_plan does, or for flags out of range.
Plan plan_of(const Request& request);

// Those that change one of its environments, but for its axis: "a=1 b=2".
std::string settings_of(const Plan& plan);

// The place of a plan on the page and the names of its files: its name, whether it is tuned, and
// the settings other than defaults. What has the same key replaces what was there.
std::string key_of(const Plan& plan);

// Keeps what was asked for, for later pages and reports, which ask for the same.
void remember(const CellStore& store, const Request& request);
// What was asked for before, one for every key; `flags` say where results and data are. Plans that
// cannot be read any more are named on the terminal and left out.
std::vector<Request> remembered_requests(const CellStore& store, const ReproduceFlags& flags);

// The request with the environments of an earlier one too, where they differ in nothing else: a
// plan may be run data set by data set.
Request joined(Request request, const Request& earlier);

// What a report is about: plans with the flags that are given, or else with those that they were
// run with, all of them where none is named. Throws Error (kInput) where there is none.
std::vector<Request> reported_requests(const ReproduceFlags& flags, const CellStore& store);

}  // namespace mcnb
