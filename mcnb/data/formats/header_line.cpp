#include "mcnb/data/formats/header_line.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/text_fields.h"

namespace mcnb {
namespace {

std::size_t columns_of(std::string_view line, std::string_view separator) {
  if (separator == " ") {
    return split_at_blanks(line, {});
  }
  if (separator.size() > 1) {
    return split(line, separator, {});
  }
  std::vector<std::string_view> fields;
  std::string scratch;
  try {
    split_csv(line, separator[0], fields, scratch);
  } catch (const RowError&) {  // its quotes do not go with this separator
    return 0;
  }
  return fields.size();
}

}  // namespace

void refuse_names_without_header(HeaderLine header, const std::string& option,
                                 const std::string& name) {
  if (header == HeaderLine::kNo && !name.empty()) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: expected none, because there is no header, got \"{}\"", option, name));
  }
}

std::string_view recognised_separator(std::string_view line,
                                      std::span<const std::string_view> candidates) {
  return *std::ranges::max_element(
      candidates, {}, [&](std::string_view separator) { return columns_of(line, separator); });
}

}  // namespace mcnb
