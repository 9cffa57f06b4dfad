#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mcnb {

// Rows of text under headings: for people as aligned columns, for machines as CSV.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);

  // Requires as many cells as headings.
  void add_row(std::vector<std::string> cells);

  std::size_t row_count() const { return rows_.size(); }
  const std::vector<std::string>& headings() const { return headings_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  // Columns of numbers to the right, others to the left, a rule below the headings.
  std::string aligned() const;

  // A table of Markdown; bars in cells are escaped.
  std::string markdown() const;

  // RFC 4180: cells with commas, quotes or line ends are quoted.
  std::string csv() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// Writes a whole text file, or leaves the old one; makes missing folders. Throws Error (kSystem).
void write_text_file(const std::filesystem::path& path, const std::string& text);

// Makes the folder where it is missing. Throws Error (kSystem) where there can be none.
void make_folder(const std::filesystem::path& path);

}  // namespace mcnb
