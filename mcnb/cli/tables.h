#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "mcnb/base/text_table.h"

namespace mcnb {

// How a command shows its tables.
struct TableFlags {
  bool json = false;
  bool wide = false;
};

// Adds --json and --wide.
void add_table_view_flags(CLI::App& command, TableFlags& flags);

// Shows the tables of one command on the standard output: on a terminal as wide as that, unless
// --wide is given, otherwise whole. With --json they are one object, and all other texts go to the
// standard error.
class TableView {
 public:
  explicit TableView(const TableFlags& flags);

  bool is_json() const { return flags_.json; }

  // `name` is the table's key in JSON, where `exact` stands instead of what people read. Requires
  // names that differ.
  void show(const std::string& name, const TextTable& shown, const TextTable& exact);
  void show(const std::string& name, const TextTable& table) { show(name, table, table); }
  // A text beside the tables, which should end with a line end.
  void say(const std::string& text) const;
  // Prints what --json asks for. Must be called once, after everything else.
  void finish() const;

 private:
  TableFlags flags_;
  std::string members_;  // of the JSON object
};

// What fits into so many characters: the texts of the last column cut into lines if there is room
// for them, otherwise fewer columns, from the last one on. `left_out` gets the headings of these.
TextTable fitted(const TextTable& table, std::size_t width, std::vector<std::string>& left_out);

// An array of objects, whose names are the headings. Cells that are numbers are JSON numbers.
std::string json_text(const TextTable& table);

// The text in bold face or in red, if the file is a terminal that shows colours and NO_COLOR is not
// set.
enum class Ink { kBold, kRed };
std::string painted(const std::string& text, Ink ink, int file);

}  // namespace mcnb
