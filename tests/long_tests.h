#pragma once

#include <cstdlib>
#include <string_view>

namespace mcnb {

// True under `./test --long`, which sets MCNB_LONG_TESTS=1: tests that repeat something then do so
// by the hundreds instead of the tens.
inline bool long_tests() {
  const char* const value = std::getenv("MCNB_LONG_TESTS");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace mcnb
