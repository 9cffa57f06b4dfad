#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// What all readers of text share: lines, fields, numbers, and messages about wrong ones.

// Thrown by the parser of one row. The caller, which knows file and line, turns it into an Error.
struct RowError {
  std::string message;
};

// Throws RowError "FIELD: expected EXPECTED, found 'FOUND'".
[[noreturn]] void refuse_field(std::string_view field, std::string_view expected,
                               std::string_view found);
[[noreturn]] void refuse_column_count(std::size_t expected, std::size_t found);

// A text in quotes, shortened and made printable, for a message.
std::string shown(std::string_view text);

// Takes the first line off the text and returns it without its end ("\n", "\r\n" or nothing).
inline std::string_view take_line(std::string_view& text) {
  const void* const end = std::memchr(text.data(), '\n', text.size());
  const std::size_t length =
      end == nullptr ? text.size()
                     : static_cast<std::size_t>(static_cast<const char*>(end) - text.data());
  std::string_view line = text.substr(0, length);
  text.remove_prefix(end == nullptr ? length : length + 1);
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

// The text without blanks and tabs at both ends.
inline std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// Splits a line at a separator of one or two characters. Stores the first fields.size() fields and
// returns how many the line has.
inline std::size_t split(std::string_view line, std::string_view separator,
                         std::span<std::string_view> fields) {
  const char first = separator[0];
  const char* const end = line.data() + line.size();
  const char* begin = line.data();
  std::size_t count = 0;
  for (const char* at = begin; at != end; ++at) {
    if (*at != first) {
      continue;
    }
    const char* next = at + 1;
    if (separator.size() == 2) {
      if (next == end || *next != separator[1]) {
        continue;
      }
      ++next;
    }
    if (count < fields.size()) {
      fields[count] = {begin, static_cast<std::size_t>(at - begin)};
    }
    ++count;
    begin = next;
    at = next - 1;
  }
  if (count < fields.size()) {
    fields[count] = {begin, static_cast<std::size_t>(end - begin)};
  }
  return count + 1;
}

// A bit mask of the positions of a character among 32 bytes. Works on eight bytes at a time,
// without branches that depend on their values.
inline std::uint32_t positions_of(char wanted, const char* bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::uint64_t kLow = 0x7f * kOnes;
  std::uint32_t positions = 0;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + 8 * i, sizeof word);
    word ^= static_cast<unsigned char>(wanted) * kOnes;  // a zero byte at each match
    const std::uint64_t zeros = ~(((word & kLow) + kLow) | word | kLow) >> 7;
    constexpr std::uint64_t kGather = 0x0102040810204080ULL;  // bit 8i to bit 56 + i
    positions |= static_cast<std::uint32_t>(zeros * kGather >> 56) << (8 * i);
  }
  return positions;
}

// Like split, but requires that 32 bytes can be read from the start of the line. Fast for short
// lines with exactly kFields fields.
template <std::size_t kFields>
std::size_t split_padded(std::string_view line, std::string_view separator,
                         std::array<std::string_view, kFields>& fields) {
  constexpr std::size_t kShort = 32;
  if (separator.size() == 1 && line.size() < kShort) {
    std::uint32_t positions = positions_of(separator[0], line.data()) & ((1U << line.size()) - 1);
    const char* begin = line.data();
    std::size_t count = 0;
    for (; count + 1 < kFields && positions != 0; ++count) {
      const char* const end = line.data() + std::countr_zero(positions);
      fields[count] = {begin, static_cast<std::size_t>(end - begin)};
      begin = end + 1;
      positions &= positions - 1;
    }
    if (count + 1 == kFields && positions == 0) {
      fields[count] = {begin, static_cast<std::size_t>(line.data() + line.size() - begin)};
      return kFields;
    }
  }
  return split(line, separator, fields);
}

// Splits a line at runs of blanks and tabs and ignores those at its ends; otherwise like split.
std::size_t split_at_blanks(std::string_view line, std::span<std::string_view> fields);

// Splits a line of CSV whose fields may be quoted (RFC 4180). Fields with doubled quotes are
// rewritten in `scratch`, which must outlive the fields. Blanks around fields are dropped. Throws
// RowError if a quoted field does not end on the line.
void split_csv(std::string_view line, char separator, std::vector<std::string_view>& fields,
               std::string& scratch);

inline constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// Reads a number of few digits ("3.5", "4.0", "17"), as most numbers in these files are; NaN for
// any other text. Up to 2^24 and 10^7 both operands of the division are exact in float, so the
// quotient is correctly rounded.
inline float parse_short_decimal(std::string_view text) {
  constexpr std::size_t kLongest = 8;
  constexpr std::array<float, kLongest> kPowersOfTen = {1e0F, 1e1F, 1e2F, 1e3F,
                                                        1e4F, 1e5F, 1e6F, 1e7F};
  if (text.empty() || text.size() > kLongest) {
    return kNoNumber;
  }
  std::uint32_t digits = 0;
  std::size_t decimals = 0;
  std::size_t after_point = 0;  // 1 after the point
  for (const char c : text) {
    const auto digit = static_cast<std::uint32_t>(static_cast<unsigned char>(c)) - '0';
    if (digit <= 9) {
      digits = 10 * digits + digit;
      decimals += after_point;
    } else if (c == '.' && after_point == 0 && text.size() > 1) {
      after_point = 1;
    } else {
      return kNoNumber;
    }
  }
  if (digits > (std::uint32_t{1} << 24)) {
    return kNoNumber;
  }
  return static_cast<float>(digits) / kPowersOfTen[decimals];
}

// Reads the whole text as a number, correctly rounded; kNoNumber if it is not a finite number.
float parse_any_float(std::string_view text);
inline float parse_float(std::string_view text) {
  const float number = parse_short_decimal(text);
  return std::isnan(number) ? parse_any_float(text) : number;
}

double parse_double(std::string_view text);

// Reads a number within limits. Throws RowError naming the field for anything else.
[[noreturn]] void refuse_number(std::string_view field, std::string_view text, double lowest,
                                double highest);
inline float parse_float_field(std::string_view field, std::string_view text, double lowest,
                               double highest) {
  const float number = parse_float(text);
  if (!(number >= lowest && number <= highest)) {
    refuse_number(field, text, lowest, highest);
  }
  return number;
}

// Checks the name of a user, item or class: not empty, at most NameList::kLongestName bytes, UTF-8.
// Throws RowError.
void check_name(std::string_view field, std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace mcnb
