#pragma once

#include <source_location>

namespace mcnb {

[[noreturn]] void report_bug(const char* claim, const std::source_location& where);

// Aborts, in release builds too, when a claim that only a bug can break does not hold. For faults
// that come from outside, throw an Error.
inline void check(bool holds, const char* claim,
                  const std::source_location& where = std::source_location::current()) {
  if (!holds) [[unlikely]] {
    report_bug(claim, where);
  }
}

}  // namespace mcnb
