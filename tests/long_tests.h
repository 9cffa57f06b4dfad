#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace mcnb {

// True under `./test --long`, which sets MCNB_LONG_TESTS=1: tests that repeat something then do so
// by the hundreds or millions instead of the tens.
inline bool long_tests() {
  const char* const value = std::getenv("MCNB_LONG_TESTS");
  return value != nullptr && std::string_view(value) == "1";
}

// How often something is repeated: `usually`, or `at_length` under `./test --long`.
inline int repeats(int usually, int at_length) { return long_tests() ? at_length : usually; }

// How often something is repeated that takes hours at full length: the number in an environment
// variable, which tests/run_long sets for one slice of the whole, otherwise `usually`.
inline std::uint64_t repeats(const char* variable, std::uint64_t usually) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? usually : std::stoull(value);
}

// What tests that draw at random begin with: the number in MCNB_TEST_SEED, which `./test --seed`
// sets; otherwise 1. A failing test repeats what it did under the same seed.
inline std::uint64_t test_seed() {
  const char* const value = std::getenv("MCNB_TEST_SEED");
  return value == nullptr || *value == '\0' ? 1 : std::stoull(value);
}

}  // namespace mcnb
