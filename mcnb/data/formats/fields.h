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

// What every reader of text shares: lines, fields, numbers, and what is said where they are wrong.

// Thrown by the parser of one row; whoever knows file and line makes an Error of it.
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

// Without blanks and tabs at both ends.
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

// Splits a line at a separator of one or two characters. Puts the first fields into `fields`, as
// many as have room there, and returns how many the line has.
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

// One bit for each of 32 bytes: set where it is the one looked for. Eight bytes at a time, without
// branches that depend on them.
inline std::uint32_t places_of(char wanted, const char* bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::uint64_t kLow = 0x7f * kOnes;
  std::uint32_t places = 0;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + 8 * i, sizeof word);
    word ^= static_cast<unsigned char>(wanted) * kOnes;  // zero where it is
    const std::uint64_t zeros = ~(((word & kLow) + kLow) | word | kLow) >> 7;
    constexpr std::uint64_t kGather = 0x0102040810204080ULL;  // bit 8i to bit 56 + i
    places |= static_cast<std::uint32_t>(zeros * kGather >> 56) << (8 * i);
  }
  return places;
}

// The same for a line behind whose first byte 32 can be read, fast where it is short and has as
// many fields as there is room for.
template <std::size_t kFields>
std::size_t split_padded(std::string_view line, std::string_view separator,
                         std::array<std::string_view, kFields>& fields) {
  constexpr std::size_t kShort = 32;
  if (separator.size() == 1 && line.size() < kShort) {
    std::uint32_t places = places_of(separator[0], line.data()) & ((1U << line.size()) - 1);
    const char* begin = line.data();
    std::size_t count = 0;
    for (; count + 1 < kFields && places != 0; ++count) {
      const char* const end = line.data() + std::countr_zero(places);
      fields[count] = {begin, static_cast<std::size_t>(end - begin)};
      begin = end + 1;
      places &= places - 1;
    }
    if (count + 1 == kFields && places == 0) {
      fields[count] = {begin, static_cast<std::size_t>(line.data() + line.size() - begin)};
      return kFields;
    }
  }
  return split(line, separator, fields);
}

// Splits a line at runs of blanks and tabs, those at its ends aside. As above otherwise.
std::size_t split_at_blanks(std::string_view line, std::span<std::string_view> fields);

// Splits a line of CSV whose fields may be quoted (RFC 4180). Fields with doubled quotes are
// rewritten in `scratch`, which must outlive the fields. Blanks around fields are dropped. Throws
// RowError where a quoted field does not end on the line.
void split_csv(std::string_view line, char separator, std::vector<std::string_view>& fields,
               std::string& scratch);

inline constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// "3.5", "4.0", "17": few digits, as most numbers in these files have. Where the text is
// anything else: not-a-number. Up to 2^24 and 10^7 both operands of the division are exact in
// float, so the quotient is the correctly rounded number.
inline float parse_short_decimal(std::string_view text) {
  constexpr std::size_t kLongest = 8;
  constexpr std::array<float, kLongest> kPowersOfTen = {1e0F, 1e1F, 1e2F, 1e3F,
                                                        1e4F, 1e5F, 1e6F, 1e7F};
  if (text.empty() || text.size() > kLongest) {
    return kNoNumber;
  }
  std::uint32_t digits = 0;
  std::size_t decimals = 0;
  std::size_t after_point = 0;  // 1 behind the point
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

// The number that the whole text is, correctly rounded; kNoNumber where it is none, or not finite.
float parse_any_float(std::string_view text);
inline float parse_float(std::string_view text) {
  const float number = parse_short_decimal(text);
  return std::isnan(number) ? parse_any_float(text) : number;
}

double parse_double(std::string_view text);

// The same within limits. Throws RowError naming the field where there is none.
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

// Checks the name of a user, item or class: not empty, at most Names::kLongestName bytes, UTF-8.
// Throws RowError.
void check_name(std::string_view field, std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace mcnb
