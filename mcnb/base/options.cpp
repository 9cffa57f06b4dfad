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

std::optional<double> number_in(const Range& range, const std::string& text) {
  double value = 0.0;
  const bool is_one = read_whole(text, value) && std::isfinite(value) && range.contains(value);
  return is_one ? std::optional(value) : std::nullopt;
}

std::optional<bool> switch_of(const std::string& text) {
  const bool is_yes = text == "yes" || text == "true" || text == "1";
  const bool is_no = text == "no" || text == "false" || text == "0";
  return is_yes || is_no ? std::optional(is_yes) : std::nullopt;
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
  const std::optional<double> value = number_in(range, text);
  if (!value) {
    refuse_option(name, "a number in " + range.text(), text);
  }
  return *value;
}

std::optional<double> parse_number_or_auto(const std::string& name, const Range& range,
                                           const std::string& text) {
  const std::optional<double> value = number_in(range, text);
  if (!value && text != "auto") {
    refuse_option(name, "a number in " + range.text() + " or auto", text);
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
  const std::optional<bool> value = switch_of(text);
  if (!value) {
    refuse_option(name, "yes or no", text);
  }
  return *value;
}

std::optional<bool> parse_switch_or_auto(const std::string& name, const std::string& text) {
  const std::optional<bool> value = switch_of(text);
  if (!value && text != "auto") {
    refuse_option(name, "yes, no or auto", text);
  }
  return value;
}

}  // namespace mcnb
