#include "mcnb/base/numbers.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

namespace mcnb {

std::string plain_digits(const std::string& text) {
  constexpr double kMostExact = 9007199254740992.0;  // 2^53: every whole number below is a double
  const char* const end = text.data() + text.size();
  double value = 0.0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool scientific =
      text.find_first_of("eE") != std::string::npos && error == std::errc() && stop == end;
  if (!scientific || std::fabs(value) > kMostExact || value != std::floor(value)) {
    return text;
  }
  return fmt::format("{:.0f}", value);
}

}  // namespace mcnb
