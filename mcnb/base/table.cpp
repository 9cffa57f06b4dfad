#include "mcnb/base/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Begins like one ("-1.5 ms"), or stands for a missing one (nothing, or "-").
bool looks_like_number(const std::string& cell) {
  const std::size_t first = cell.find_first_not_of("+-.");
  return first == std::string::npos || (cell[first] >= '0' && cell[first] <= '9');
}

// How many columns a UTF-8 text takes on the terminal, as long as every character takes one.
std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const std::string space(width - shown_width(cell), ' ');
  return right ? space + cell : cell + space;
}

std::string trimmed_line(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += i == 0 ? "" : ",";
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += cells[i];
      continue;
    }
    line += '"';
    for (const char c : cells[i]) {
      line += c == '"' ? std::string("\"\"") : std::string(1, c);
    }
    line += '"';
  }
  return line + '\n';
}

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += ' ';
    for (const char c : cell) {
      line += c == '|' ? std::string("\\|") : std::string(1, c);
    }
    line += " |";
  }
  return line + '\n';
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add_row(std::vector<std::string> cells) {
  check(cells.size() == headings_.size(), "a row has as many cells as there are headings");
  rows_.push_back(std::move(cells));
}

std::string Table::aligned() const {
  std::string heading;
  std::string rule;
  std::vector<std::string> lines(rows_.size());
  for (std::size_t column = 0; column < headings_.size(); ++column) {
    std::size_t width = shown_width(headings_[column]);
    bool numbers = true;
    for (const auto& row : rows_) {
      width = std::max(width, shown_width(row[column]));
      numbers = numbers && looks_like_number(row[column]);
    }
    const std::string gap = column == 0 ? "" : "  ";
    heading += gap + padded(headings_[column], width, numbers);
    rule += gap + std::string(width, '-');
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      lines[i] += gap + padded(rows_[i][column], width, numbers);
    }
  }
  std::string text = trimmed_line(heading) + trimmed_line(rule);
  for (const std::string& line : lines) {
    text += trimmed_line(line);
  }
  return text;
}

std::string Table::markdown() const {
  std::string text = markdown_line(headings_) + "|";
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    text += "---|";
  }
  text += '\n';
  for (const auto& row : rows_) {
    text += markdown_line(row);
  }
  return text;
}

std::string Table::csv() const {
  std::string text = csv_line(headings_);
  for (const auto& row : rows_) {
    text += csv_line(row);
  }
  return text;
}

void write_text_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  if (path.has_parent_path()) {
    std::filesystem::create_directories(path.parent_path(), error);
  }
  std::filesystem::path temporary = path;
  temporary += ".part";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out.good()) {
    std::filesystem::rename(temporary, path, error);
  } else if (!error) {
    error.assign(errno == 0 ? EIO : errno, std::generic_category());
  }
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", path.string(), error.message()));
  }
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", path.string(), error.message()));
  }
}

}  // namespace mcnb
