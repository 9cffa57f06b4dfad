#pragma once

#include <string>

namespace mcnb {

// Whether the first line of a table names its columns.
enum class HeaderLine {
  kAuto,  // decided by its fields
  kYes,
  kNo,
};

// Throws Error (kUsage) if an option names a column although the file has no header.
void refuse_names_without_header(HeaderLine header, const std::string& option,
                                 const std::string& name);

}  // namespace mcnb
