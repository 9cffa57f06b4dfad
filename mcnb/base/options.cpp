#include "mcnb/base/options.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/base/numbers.h"

namespace mcnb {
namespace {

// Reads the whole text as a number; false if it is not one.
template <class Number>
bool read_whole(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string number_text(double value) { return fmt::format("{}", value); }

std::string Range::text() const {
  return fmt::format("{}{}, {}{}", low_open ? '(' : '[', low, high, high_open ? ')' : ']');
}

void refuse_option(const std::string& name, const std::string& expected, const std::string& text) {
  throw Error(ErrorKind::kUsage,
              fmt::format("option {}: expected {}, got \"{}\"", name, expected, text));
}

double parse_number(const std::string& name, const Range& range, const std::string& text) {
  double value = 0.0;
  if (!read_whole(text, value) || !std::isfinite(value) || !range.contains(value)) {
    refuse_option(name, "a number in " + range.text(), text);
  }
  return value;
}

std::uint64_t parse_count(const std::string& name, const Range& range, const std::string& text) {
  std::uint64_t value = 0;
  if (!read_whole(plain_digits(text), value) || !range.contains(static_cast<double>(value))) {
    refuse_option(name, "a whole number in " + range.text(), text);
  }
  return value;
}

bool parse_switch(const std::string& name, const std::string& text) {
  if (text == "yes" || text == "true" || text == "1") {
    return true;
  }
  if (text == "no" || text == "false" || text == "0") {
    return false;
  }
  refuse_option(name, "yes or no", text);
}

}  // namespace mcnb
