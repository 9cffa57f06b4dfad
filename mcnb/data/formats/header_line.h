#pragma once

#include <span>
#include <string>
#include <string_view>

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

// Between which texts a line has the most columns; the first one of several. A blank stands for
// runs of blanks and tabs; fields between single characters may be quoted.
std::string_view recognised_separator(std::string_view line,
                                      std::span<const std::string_view> candidates);

}  // namespace mcnb
