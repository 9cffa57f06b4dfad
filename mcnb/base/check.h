#pragma once

#include <source_location>

namespace mcnb {

[[noreturn]] void report_bug(const char* claim, const std::source_location& where);

// Aborts unless the claim holds, in release builds too. Use it for claims that only a bug can
// break; for faults that come from outside, throw an Error.
inline void check(bool holds, const char* claim,
                  const std::source_location& where = std::source_location::current()) {
  if (!holds) [[unlikely]] {
    report_bug(claim, where);
  }
}

}  // namespace mcnb
