#include "mcnb/data/formats/text_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "mcnb/base/options.h"
#include "mcnb/data/formats/name_table.h"

namespace mcnb {
namespace {

// The number of bytes of the UTF-8 character that starts here; 0 if it is not UTF-8.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool too_large = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

// Takes a quoted field off the rest of a line, which starts after the opening quote.
std::string_view take_quoted(std::string_view& rest, std::string& scratch) {
  const std::size_t start = scratch.size();
  for (;;) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) {
      throw RowError{"expected the end of a quoted field, found the end of the line"};
    }
    scratch.append(rest.substr(0, quote));
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) {
      return std::string_view(scratch).substr(start);
    }
    scratch += '"';
    rest.remove_prefix(1);
  }
}

}  // namespace

void refuse_field(std::string_view field, std::string_view expected, std::string_view found) {
  throw RowError{fmt::format("{}: expected {}, found {}", field, expected,
                             found.empty() ? "nothing" : shown(found))};
}

void refuse_column_count(std::size_t expected, std::size_t found) {
  throw RowError{fmt::format("expected {} columns, found {}", expected, found)};
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string result = "'";
  const std::size_t room = std::min(text.size(), kLongest);
  for (std::size_t i = 0; i < room;) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = character_length(text.substr(i));
    if (byte < 0x20 || byte == 0x7F || length == 0) {
      result += fmt::format("\\x{:02x}", byte);
      ++i;
    } else {
      result += text.substr(i, length);
      i += length;
    }
  }
  return result + (room < text.size() ? "...'" : "'");
}

std::size_t split_at_blanks(std::string_view line, std::span<std::string_view> fields) {
  std::size_t count = 0;
  for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    if (count < fields.size()) {
      fields[count] = line.substr(0, end);
    }
    ++count;
    line.remove_prefix(end);
  }
  return count;
}

void split_csv(std::string_view line, char separator, std::vector<std::string_view>& fields,
               std::string& scratch) {
  fields.clear();
  scratch.clear();
  // No field is longer than the line, so the scratch does not move after this.
  scratch.reserve(line.size());
  for (;;) {
    std::string_view field = line.substr(0, line.find(separator));
    if (trimmed(field).starts_with('"')) {
      line.remove_prefix(line.find('"') + 1);
      const std::string_view unquoted = take_quoted(line, scratch);
      field = line.substr(0, line.find(separator));
      if (!trimmed(field).empty()) {
        refuse_field("quoted field", "a separator after it", field);
      }
      fields.push_back(unquoted);
    } else {
      fields.push_back(trimmed(field));
    }
    if (field.size() == line.size()) {
      return;
    }
    line.remove_prefix(field.size() + 1);
  }
}

float parse_any_float(std::string_view text) {
  float number = 0.0F;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end) {
    return std::isfinite(number) ? number : kNoNumber;
  }
  // A number that is too small for a float, but not for a double, is zero.
  return std::abs(parse_double(text)) < std::numeric_limits<float>::min() ? 0.0F : kNoNumber;
}

double parse_double(std::string_view text) {
  double number = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool good = error == std::errc() && stop == end && std::isfinite(number);
  return good ? number : std::numeric_limits<double>::quiet_NaN();
}

void refuse_number(std::string_view field, std::string_view text, double lowest, double highest) {
  constexpr double kUnlimited = 1e30;
  refuse_field(field,
               highest > kUnlimited ? std::string("a number")
                                    : fmt::format("a number from {} to {}", number_text(lowest),
                                                  number_text(highest)),
               text);
}

void check_name(std::string_view field, std::string_view text) {
  if (text.empty()) {
    refuse_field(field, "a name", text);
  }
  if (text.size() > NameList::kLongestName) {
    refuse_field(field, fmt::format("a name of at most {} bytes", NameList::kLongestName), text);
  }
  if (!is_utf8(text)) {
    refuse_field(field, "a name in UTF-8", text);
  }
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace mcnb
