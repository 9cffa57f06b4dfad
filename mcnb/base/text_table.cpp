#include "mcnb/base/text_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// True for a cell that starts like a number ("-1.5 ms") or marks a missing one ("" or "-").
bool looks_like_number(const std::string& cell) {
  const std::size_t first = cell.find_first_not_of("+-.");
  return first == std::string::npos || (cell[first] >= '0' && cell[first] <= '9');
}

// Counts the characters of a UTF-8 text: its columns on a terminal, if every character takes one.
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

TextTable::TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  check(cells.size() == headings_.size(), "a row has as many cells as there are headings");
  rows_.push_back(std::move(cells));
}

std::string TextTable::aligned() const {
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

std::string TextTable::markdown() const {
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

std::string TextTable::csv() const {
  std::string text = csv_line(headings_);
  for (const auto& row : rows_) {
    text += csv_line(row);
  }
  return text;
}

}  // namespace mcnb
