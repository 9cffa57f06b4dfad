#include "mcnb/logs/timestamps.h"

#include <fmt/core.h>

#include <chrono>

namespace mcnb {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a number of exactly so many digits off the text.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) {
    return std::nullopt;
  }
  int number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_digit(text[i])) {
      return std::nullopt;
    }
    number = 10 * number + (text[i] - '0');
  }
  text.remove_prefix(count);
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

// "hh:mm" as seconds; "hhmm" and "hh" only in zones.
std::optional<std::int64_t> take_hours(std::string_view& text, bool in_zone) {
  const std::optional<int> hours = take_digits(text, 2);
  if (!hours || *hours > 23) {
    return std::nullopt;
  }
  if (in_zone && text.empty()) {
    return *hours * 3600;
  }
  if (!take(text, ':') && !in_zone) {
    return std::nullopt;
  }
  const std::optional<int> minutes = take_digits(text, 2);
  if (!minutes || *minutes > 59) {
    return std::nullopt;
  }
  return *hours * 3600 + *minutes * 60;
}

// ":ss" and a fraction, if they are there, as microseconds.
std::optional<std::int64_t> take_seconds(std::string_view& text) {
  if (!take(text, ':')) {
    return 0;
  }
  const std::optional<int> seconds = take_digits(text, 2);
  if (!seconds || *seconds > 60) {
    return std::nullopt;
  }
  std::int64_t time = *seconds * kSecond;
  if (take(text, '.')) {
    if (text.empty() || !is_digit(text.front())) {
      return std::nullopt;
    }
    for (std::int64_t unit = kSecond / 10; !text.empty() && is_digit(text.front()); unit /= 10) {
      time += (text.front() - '0') * unit;
      text.remove_prefix(1);
    }
  }
  return time;
}

// "Z", "+hh:mm" or nothing, as the seconds to subtract. Takes the whole text.
std::optional<std::int64_t> take_zone(std::string_view text) {
  if (text.empty() || text == "Z" || text == "z") {
    return 0;
  }
  const bool east = text.front() == '+';
  if (!east && text.front() != '-') {
    return std::nullopt;
  }
  text.remove_prefix(1);
  const std::optional<std::int64_t> offset = take_hours(text, true);
  if (!offset || !text.empty()) {
    return std::nullopt;
  }
  return east ? *offset : -*offset;
}

std::optional<std::int64_t> take_date(std::string_view& text) {
  const std::optional<int> year = take_digits(text, 4);
  if (!year || *year < 1970 || !take(text, '-')) {
    return std::nullopt;
  }
  const std::optional<int> month = take_digits(text, 2);
  if (!month || !take(text, '-')) {
    return std::nullopt;
  }
  const std::optional<int> day = take_digits(text, 2);
  if (!day) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) {
    return std::nullopt;
  }
  return std::chrono::sys_days(date).time_since_epoch().count() * 86'400 * kSecond;
}

}  // namespace

std::optional<std::int64_t> parse_time(std::string_view text) {
  const std::optional<std::int64_t> date = take_date(text);
  if (!date || text.empty()) {
    return date;
  }
  if (!take(text, 'T') && !take(text, ' ')) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> hours = take_hours(text, false);
  const std::optional<std::int64_t> seconds = hours ? take_seconds(text) : std::nullopt;
  const std::optional<std::int64_t> zone = seconds ? take_zone(text) : std::nullopt;
  if (!zone) {
    return std::nullopt;
  }
  const std::int64_t time = *date + *seconds + (*hours - *zone) * kSecond;
  return time < 0 ? std::nullopt : std::optional(time);
}

std::string time_text(std::int64_t microseconds) {
  const std::int64_t day_length = 86'400 * kSecond;
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(microseconds / day_length))};
  const std::int64_t rest = microseconds % day_length;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     rest / (3600 * kSecond), rest / (60 * kSecond) % 60, rest / kSecond % 60,
                     rest % kSecond);
}

}  // namespace mcnb
