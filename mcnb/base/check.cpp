#include "mcnb/base/check.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace mcnb {

void report_bug(const char* claim, const std::source_location& where) {
  fmt::print(stderr, "mcnb: a bug: {}:{}: this should hold: {}\n", where.file_name(), where.line(),
             claim);
  std::abort();
}

}  // namespace mcnb
