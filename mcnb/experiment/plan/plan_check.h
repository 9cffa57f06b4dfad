#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "mcnb/base/error.h"
#include "mcnb/experiment/plan/plan.h"

namespace mcnb {

// The file of a plan, for error messages.
struct PlanSource {
  std::string file;
  // Lines of the fields: "axis" for a field, "environment.gap" for an entry of that table.
  std::map<std::string, std::size_t> lines;

  // The first line of the file for a field that is missing.
  std::size_t line_of(const std::string& field) const;
};

// An Error whose message already names the plan's file.
class PlanFileError : public Error {
 public:
  PlanFileError(ErrorKind kind, const PlanSource& source, std::size_t line, const std::string& why);
};

// Checks that the fields of a plan fit together, and that everything they name exists. Throws
// PlanFileError.
void check_plan(const Plan& plan, const PlanSource& source);

}  // namespace mcnb
