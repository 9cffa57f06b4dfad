#pragma once

#include <string>
#include <vector>

namespace mcnb {

// Rows of text under headings, shown as aligned columns, Markdown or CSV.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings);

  // Requires as many cells as headings.
  void add_row(std::vector<std::string> cells);

  std::size_t row_count() const { return rows_.size(); }
  const std::vector<std::string>& headings() const { return headings_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  // Aligns columns of numbers to the right and others to the left, with a rule below the headings.
  std::string aligned() const;

  // A Markdown table; bars in cells are escaped.
  std::string markdown() const;

  // RFC 4180: cells with commas, quotes or line ends are quoted.
  std::string csv() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mcnb
