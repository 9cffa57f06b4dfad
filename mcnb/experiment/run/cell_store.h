#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/experiment/run/cell_table.h"
#include "mcnb/experiment/run/runner.h"

namespace mcnb {

// Everything that a cell's result depends on, as JSON: the environment with all its options and its
// data, the policy with its options, seed, rounds, and `program`, which stands for the code that
// computes it.
std::string cell_key(const Cell& cell, const std::string& program);

// Exact: numbers read back are the numbers written.
std::string result_to_json(const CellResult& result);
// Throws Error (kCorrupt) for text that result_to_json did not write.
CellResult result_from_json(const std::string& text);

// The program, machine and day that made a result. Machine and day are empty in old files.
struct Origin {
  std::string program;
  std::string machine;
  std::string date;  // 2026-11-16
};

struct StoredCell {
  CellResult result;
  Origin origin;
};

// Finished cells in one SQLite file or a PostgreSQL database: an interrupted experiment continues,
// a larger one reuses the runs of a smaller one, and with a database several machines share the
// work. Many threads may use one store, and several programs one file or database at the same time.
class CellStore {
 public:
  // `where` is the path of a file or the URL of a database. `program` stands for the code that
  // computes cells: `find` ignores results of other programs. `machine` is saved with each result.
  // Makes the file and its folder, or the tables, if they are missing. Throws Error: kSystem if
  // they cannot be written, kCorrupt if they are not results.
  CellStore(const std::string& where, std::string program, std::string machine = {});

  // The result of exactly this cell, computed by this program.
  std::optional<StoredCell> find(const Cell& cell) const;

  // Writes the whole result to disk, or nothing. Throws Error (kSystem).
  void save(const Cell& cell, const CellResult& result) const;

  // The result of this cell by any program, for reports: this program's result if there is one,
  // else that of the program with the most cells in the store. If no program that knows all options
  // of the policy has one, that of a program from before an option that the cell does not set. All
  // results of an environment are of one version of its data: the version on this machine, or, if
  // the store has no runs of it, the one with the most cells.
  std::optional<StoredCell> find_any(const Cell& cell) const;
  std::optional<std::string> find_any_failure(const Cell& cell) const;
  // True if the store has a cell of an environment with that name.
  bool has_any_of(const std::string& environment) const;

  // Why this program could not finish exactly this cell; nullopt if it did not fail.
  std::optional<std::string> find_failure(const Cell& cell) const;
  void save_failure(const Cell& cell, const std::string& why) const;

  // Texts that are not cells, by name.
  void keep_text(const std::string& name, const std::string& text) const;
  // Replaces a text by what `change` makes of it; nullopt stands for a missing text. No other
  // program can change the text between reading and writing.
  void change_text(
      const std::string& name,
      const std::function<std::string(const std::optional<std::string>&)>& change) const;
  std::map<std::string, std::string> kept_texts() const;

  // Throws Error unless there are results in this file or database: kInput for a missing file,
  // kCorrupt for any other.
  static void expect_results(const std::string& where);

  // Adds the cells and texts of another file or database that this one does not have. The other
  // file may be read-only. Returns the number of new cells. Throws as expect_results and the
  // constructor do.
  std::size_t merge(const std::string& other) const;

  // Number of finished cells of all programs.
  std::size_t size() const;

  // For programs that share the cells of a database; nullptr for a file.
  CellClaims* claims() const { return table_->claims(); }
  // The rows of a finished cell and of one that failed, as `save` and `save_failure` write them.
  CellRow row_of(const Cell& cell, const CellResult& result) const;
  CellRow failure_row(const Cell& cell, const std::string& why) const;
  // Of a cell without a result.
  CellRow row_of(const Cell& cell) const;
  // The text of the cell's result or failure, even if it is damaged.
  std::optional<std::string> find_text(const Cell& cell) const;

  // The path of the file, or the address of the database without the password.
  const std::string& name() const { return name_; }
  const std::string& program() const { return program_; }
  // The origin that a result saved now gets.
  Origin origin() const;

 private:
  // A cell of the table, for find_any.
  struct Candidate {
    std::string program;
    std::string data;
    std::string key;
    bool lacks_options = false;  // that the policy did not have yet
    bool is_other_data = false;  // other than the data on this machine
  };
  void index_cells() const;
  std::optional<Candidate> best_candidate(const Cell& cell) const;
  std::optional<Candidate> best_match(const Cell& cell, bool lacks_options) const;
  void put(const CellRow& row) const;

  std::string name_;
  std::string program_;
  std::string machine_;
  std::unique_ptr<CellTable> table_;
  mutable std::mutex mutex_;  // guards what follows
  // The index of find_any, made by its first call: cells by their description without program and
  // data.
  mutable std::multimap<std::string, Candidate> candidates_;
  mutable std::map<std::string, std::size_t> programs_;                     // cells of each
  mutable std::map<std::string, std::map<std::string, std::size_t>> data_;  // by environment
  mutable bool is_indexed_ = false;
};

}  // namespace mcnb
