#pragma once

#include <vector>

#include "mcnb/experiment/section_writer.h"

namespace mcnb {

// Final regrets against the option that the plan varies: a picture and a table for every
// environment, with reference curves and published lines; and how far the order of the arms
// changes, where that is known. Requires a plan with an axis.
void axis_figures(const Plan& plan, const std::vector<Shown>& shown,
                  const std::vector<OrderOfArms>& order, SectionWriter& writer);

}  // namespace mcnb
