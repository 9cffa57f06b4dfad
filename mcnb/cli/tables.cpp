#include "mcnb/cli/tables.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "mcnb/base/json_writer.h"

namespace mcnb {
namespace {

constexpr std::size_t kGap = 2;         // characters between columns, as in `aligned`
constexpr std::size_t kLeastText = 24;  // characters of a line of text

// Characters of UTF-8, each of which takes one column of a terminal.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::vector<std::size_t> widths_of(const TextTable& table) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < table.headings().size(); ++column) {
    widths.push_back(length_of(table.headings()[column]));
    for (const auto& row : table.rows()) {
      widths.back() = std::max(widths.back(), length_of(row[column]));
    }
  }
  return widths;
}

// The words of a text in lines of so many characters, as far as they fit.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (length_of(line) + 1 + length_of(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

TextTable with_wrapped_texts(const TextTable& table, std::size_t width) {
  TextTable narrow(table.headings());
  for (const auto& row : table.rows()) {
    const std::vector<std::string> lines = wrapped(row.back(), width);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::vector<std::string> cells = i == 0 ? row : std::vector<std::string>(row.size());
      cells.back() = lines[i];
      narrow.add_row(std::move(cells));
    }
  }
  return narrow;
}

TextTable first_columns(const TextTable& table, std::ptrdiff_t count) {
  const auto first = [count](const std::vector<std::string>& cells) {
    return std::vector<std::string>(cells.begin(), cells.begin() + count);
  };
  TextTable narrow(first(table.headings()));
  for (const auto& row : table.rows()) {
    narrow.add_row(first(row));
  }
  return narrow;
}

// Whether the text is a number of JSON as it stands.
bool is_json_number(const std::string& text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  const std::size_t point = text.find('.');
  if (!is_digit(sign) || (text[sign] == '0' && is_digit(sign + 1)) ||
      (point != std::string::npos && !is_digit(point + 1))) {
    return false;
  }
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && std::isfinite(value);
}

// 0: the standard output is no terminal.
std::size_t output_width() {
  winsize size{};
  return ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0
             ? size.ws_col
             : 0;
}

}  // namespace

void add_table_view_flags(CLI::App& command, TableFlags& flags) {
  command.add_flag("--json", flags.json, "Print the tables as JSON on the standard output");
  command.add_flag("--wide", flags.wide, "Show all columns, also beyond the terminal's width");
}

TableView::TableView(const TableFlags& flags) : flags_(flags) {}

void TableView::show(const std::string& name, const TextTable& shown, const TextTable& exact) {
  if (flags_.json) {
    std::string key;
    append_json_text(key, name);
    members_ += (members_.empty() ? "" : ",\n ") + key + ": " + json_text(exact);
    return;
  }
  const std::size_t width = flags_.wide ? 0 : output_width();
  std::vector<std::string> left_out;
  const std::string text = (width == 0 ? shown : fitted(shown, width, left_out)).aligned();
  const std::size_t heading = text.find('\n');
  fmt::print("{}{}", painted(text.substr(0, heading), Ink::kBold, STDOUT_FILENO),
             text.substr(heading));
  if (!left_out.empty()) {
    std::string names;
    for (const std::string& column : left_out) {
      names += (names.empty() ? "" : ", ") + column;
    }
    fmt::print("(--wide also shows: {})\n", names);
  }
}

void TableView::say(const std::string& text) const {
  fmt::print(flags_.json ? stderr : stdout, "{}", text);
}

void TableView::finish() const {
  if (flags_.json) {
    fmt::print("{{{}}}\n", members_);
  }
}

TextTable fitted(const TextTable& table, std::size_t width, std::vector<std::string>& left_out) {
  const std::vector<std::size_t> widths = widths_of(table);
  std::size_t used = widths[0];
  std::size_t count = 1;
  while (count < widths.size() && used + kGap + widths[count] <= width) {
    used += kGap + widths[count++];
  }
  if (count == widths.size()) {
    return table;
  }
  if (count + 1 == widths.size() && used + kGap + kLeastText <= width) {
    return with_wrapped_texts(table, width - used - kGap);
  }
  left_out.assign(table.headings().begin() + static_cast<std::ptrdiff_t>(count),
                  table.headings().end());
  return first_columns(table, static_cast<std::ptrdiff_t>(count));
}

std::string json_text(const TextTable& table) {
  std::vector<std::string> names;  // an object has each name once
  for (const std::string& heading : table.headings()) {
    const auto before = std::ranges::count(
        table.headings().begin(),
        table.headings().begin() + static_cast<std::ptrdiff_t>(names.size()), heading);
    names.push_back(before == 0 ? heading : fmt::format("{} {}", heading, before + 1));
  }
  JsonWriter out;
  out.begin_array();
  for (const auto& row : table.rows()) {
    out.begin_object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      out.key(names[i]);
      is_json_number(row[i]) ? out.raw(row[i]) : out.value(row[i]);
    }
    out.end_object();
  }
  return out.end_array().take();
}

std::string painted(const std::string& text, Ink ink, int file) {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool plain = ::isatty(file) != 1 || (no_color != nullptr && *no_color != '\0') ||
                     term == nullptr || std::string_view(term) == "dumb";
  return plain ? text : fmt::format("\x1b[{}m{}\x1b[0m", ink == Ink::kBold ? "1" : "31", text);
}

}  // namespace mcnb
