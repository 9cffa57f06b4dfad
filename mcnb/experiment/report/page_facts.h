#pragma once

#include <string>
#include <vector>

#include "mcnb/experiment/report/html_page.h"
#include "mcnb/experiment/report/plan_request.h"

namespace mcnb {

// A plan on the page: what was asked for and what came of it.
struct PagePlan {
  PlanRequest request;
  Plan plan;
  Section section;
};

// How the page and the results of every plan were made, for the table at its end. `command` is the
// one that makes the page.
MadeBy page_facts(const std::string& command, const std::vector<const PagePlan*>& plans,
                  const CellStore& store);

// "140 on this, 20 on that", for counts by name and the word "on".
std::string counts_text(const std::map<std::string, std::size_t>& counts, const std::string& word);

// The text without the folders of paths in it: pages are published, and folders are private.
std::string without_folders(const std::string& text);

}  // namespace mcnb
