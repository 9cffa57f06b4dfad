#pragma once

#include <string>
#include <vector>

#include "mcnb/experiment/report/plan_request.h"
#include "mcnb/experiment/run/cell_store.h"

namespace mcnb {

// The store keeps what was asked for, so that later pages and reports show it again.

std::string request_to_json(const PlanRequest& request);
// Throws Error (kCorrupt) for text that request_to_json did not write.
PlanRequest request_from_json(const std::string& text);

// Keeps a request under its page_key. Environments of a kept request that differs in nothing else
// are added, also if another program keeps it at the same time. Returns what is kept now.
PlanRequest remember(const CellStore& store, const PlanRequest& request);

struct RememberedRequest {
  std::string key;  // page_key of its plan
  PlanRequest request;
};
struct RememberedRequests {
  // One for each key: the paper's plans in their order, then the others by key.
  std::vector<RememberedRequest> all;
  // Why kept requests cannot be read, each with the name it was kept under.
  std::vector<std::string> unreadable;
};
// Reads all kept requests, also those that programs before the JSON format have kept.
RememberedRequests remembered_requests(const CellStore& store);

}  // namespace mcnb
