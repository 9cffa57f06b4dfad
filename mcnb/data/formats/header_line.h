#pragma once

#include <string>

namespace mcnb {

// Whether the first line of a table names its columns.
enum class HeaderLine {
  kAuto,  // as its fields look
  kYes,
  kNo,
};

// Throws Error (kUsage) where a column is called by a name, but there is no line that names
// columns.
void refuse_names_without_header(HeaderLine header, const std::string& option,
                                 const std::string& name);

}  // namespace mcnb
