#include "mcnb/evaluate/readers/column_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "mcnb/base/error.h"
#include "mcnb/logs/logged_round.h"

namespace mcnb {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 19;

constexpr std::array<std::string_view, 5> kFieldNames = {"probability", "policy_probability",
                                                         "reward", "model_logged", "model_policy"};

std::string_view without_return(std::string_view line) {
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

// The number of a whole field; NaN for anything else. Short decimals, which are a whole number over
// a power of ten, both exact, take one division; that is the nearest double, as from_chars finds
// it.
double field_number(const char* begin, const char* end) {
  constexpr std::array<double, 16> kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  constexpr std::ptrdiff_t kExact = 16;  // characters: at most 15 digits, which are below 2^53
  if (end - begin <= kExact && begin != end) {
    const bool negative = *begin == '-';
    std::uint64_t digits = 0;
    std::size_t after_point = 0;
    std::size_t count = 0;
    bool point = false;
    const char* at = begin + (negative ? 1 : 0);
    for (; at != end; ++at) {
      const auto digit = static_cast<unsigned>(*at - '0');
      if (digit <= 9) {
        digits = digits * 10 + digit;
        after_point += point ? 1 : 0;
        ++count;
      } else if (*at == '.' && !point) {
        point = true;
      } else {
        break;
      }
    }
    if (at == end && count > 0 && count < kPowers.size()) {
      const double number = static_cast<double>(digits) / kPowers[after_point];
      return negative ? -number : number;
    }
  }
  double number = 0.0;
  const auto [rest, problem] = std::from_chars(begin, end, number);
  return problem == std::errc() && rest == end ? number : std::nan("");
}

}  // namespace

bool is_policy_table(std::string_view header) {
  return !header.starts_with('{') && header.find("policy_probability") != std::string_view::npos;
}

ColumnReader::ColumnReader(const Input& input, std::uint64_t skip_bad)
    : name_(input.name()), stream_(input.open()), skip_bad_(skip_bad), buffer_(kBufferBytes) {
  std::string_view header;
  if (!next_line(header)) {
    throw Error(ErrorKind::kInput, fmt::format("{}: expected a table, found nothing", name_));
  }
  read_header(without_return(header));
}

void ColumnReader::read_header(std::string_view line) {
  while (true) {
    const std::size_t comma = std::min(line.find(','), line.size());
    const auto found = std::ranges::find(kFieldNames, line.substr(0, comma));
    fields_.push_back(static_cast<Field>(found - kFieldNames.begin()));
    if (comma == line.size()) {
      break;
    }
    line.remove_prefix(comma + 1);
  }
  const auto count = [&](Field field) { return std::ranges::count(fields_, field); };
  has_model_ = count(kModelLogged) == 1 && count(kModelPolicy) == 1;
  const bool sound = count(kProbability) == 1 && count(kPolicyProbability) == 1 &&
                     count(kReward) == 1 && (has_model_ || count(kModelLogged) == 0) &&
                     (has_model_ || count(kModelPolicy) == 0);
  if (!sound) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}:1: expected the columns probability, policy_probability and reward, "
                    "once, and model_logged and model_policy both or not at all",
                    name_));
  }
}

// Moves what is left to the front and reads more. False at the end.
bool ColumnReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t read = ended_ ? 0 : stream_->read(buffer_.data() + end_, buffer_.size() - end_);
  ended_ = ended_ || read < buffer_.size() - end_;
  end_ += read;
  return read > 0;
}

bool ColumnReader::next_line(std::string_view& line) {
  while (true) {
    const char* const begin = buffer_.data() + begin_;
    const auto* const newline = static_cast<const char*>(std::memchr(begin, '\n', end_ - begin_));
    if (newline != nullptr) {
      line = {begin, static_cast<std::size_t>(newline - begin)};
      begin_ += line.size() + 1;
      ++line_;
      return true;
    }
    if (end_ - begin_ > kLongestLine) {
      throw Error(ErrorKind::kInput, fmt::format("{}:{}: expected a line of at most {} bytes",
                                                 name_, line_ + 1, kLongestLine));
    }
    if (!fill()) {
      break;
    }
  }
  line = {buffer_.data() + begin_, end_ - begin_};
  begin_ = end_;
  ++line_;
  return !line.empty();
}

std::string ColumnReader::parse(std::string_view line, PolicyRow& row) const {
  std::array<double, kFieldNames.size()> numbers{};
  const char* at = line.data();
  const char* const end = at + line.size();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const char* comma = at;
    while (comma != end && *comma != ',') {
      ++comma;
    }
    if (fields_[i] != kSkipped) {
      const double number = field_number(at, comma);
      if (!std::isfinite(number)) {
        return fmt::format("{}: expected a finite number, found \"{}\"", kFieldNames[fields_[i]],
                           std::string_view(at, static_cast<std::size_t>(comma - at)));
      }
      numbers[fields_[i]] = number;
    }
    const bool last = i + 1 == fields_.size();
    if (last != (comma == end)) {
      return fmt::format("expected {} columns, found {}", fields_.size(),
                         std::ranges::count(line, ',') + 1);
    }
    at = last ? comma : comma + 1;
  }
  row.probability = numbers[kProbability];
  if (!(row.probability >= kLeastLoggedProbability && row.probability <= 1.0)) {
    return fmt::format("probability: expected a number above 0, at most 1, found {}",
                       row.probability);
  }
  if (!(numbers[kPolicyProbability] >= 0.0 && numbers[kPolicyProbability] <= 1.0)) {
    return fmt::format("policy_probability: expected a number in [0, 1], found {}",
                       numbers[kPolicyProbability]);
  }
  row.row = {.weight = numbers[kPolicyProbability] / row.probability,
             .reward = numbers[kReward],
             .model_logged = numbers[kModelLogged],
             .model_policy = numbers[kModelPolicy]};
  return {};
}

std::size_t ColumnReader::read(std::span<PolicyRow> rows) {
  std::size_t count = 0;
  std::string_view line;
  while (count < rows.size() && next_line(line)) {
    line = without_return(line);
    if (line.empty()) {
      continue;
    }
    const std::string problem = parse(line, rows[count]);
    if (problem.empty()) {
      ++count;
    } else if (++skipped_ > skip_bad_) {
      throw Error(ErrorKind::kInput, fmt::format("{}:{}: {}", name_, line_, problem));
    }
  }
  return count;
}

}  // namespace mcnb
