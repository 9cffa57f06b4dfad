#include "mcnb/data/formats/header_line.h"

#include <fmt/core.h>

#include "mcnb/base/error.h"

namespace mcnb {

void refuse_names_without_header(HeaderLine header, const std::string& option,
                                 const std::string& name) {
  if (header == HeaderLine::kNo && !name.empty()) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: expected none, because there is no header, got \"{}\"", option, name));
  }
}

}  // namespace mcnb
