#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/experiment/run/runner.h"
#include "mcnb/storage/sqlite.h"

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

// Finished cells in one SQLite file: an interrupted experiment continues, a larger one reuses the
// runs of a smaller one, and several machines can share the work. Many threads may use one store,
// and several programs one file at the same time.
class CellStore {
 public:
  // `program` stands for the code that computes cells: `find` ignores results of other programs.
  // `machine` is saved with each result. Makes the file and its folder if they are missing. Throws
  // Error: kSystem if the file cannot be written, kCorrupt if it is not a results file.
  CellStore(const std::filesystem::path& path, std::string program, std::string machine = {});

  // The result of exactly this cell, computed by this program.
  std::optional<StoredCell> find(const Cell& cell) const;

  // Writes the whole result to disk, or nothing. Throws Error (kSystem).
  void save(const Cell& cell, const CellResult& result) const;

  // The result of this cell by any program, for reports: this program's result if there is one,
  // else that of the program with the most cells in the file. If no program that knows all options
  // of the policy has one, that of a program from before an option that the cell does not set. All
  // results of an environment are of one version of its data: the version on this machine, or, if
  // the file has no runs of it, the one with the most cells.
  std::optional<StoredCell> find_any(const Cell& cell) const;
  std::optional<std::string> find_any_failure(const Cell& cell) const;
  // True if the file has a cell of an environment with that name.
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

  // Throws Error unless the path is a results file: kInput for a missing file, kCorrupt for any
  // other.
  static void expect_results(const std::filesystem::path& path);

  // Adds the cells and texts of another results file that this one does not have. The other file
  // may be read-only. Returns the number of new cells. Throws as expect_results and the constructor
  // do.
  std::size_t merge(const std::filesystem::path& other) const;

  // Number of cells in the file, of all programs.
  std::size_t size() const;

  const std::filesystem::path& path() const { return path_; }
  const std::string& program() const { return program_; }
  // The origin that a result saved now gets.
  Origin origin() const;

 private:
  // A cell of the file, for find_any.
  struct Candidate {
    std::string program;
    std::string data;
    std::string key;
    bool lacks_options = false;  // that the policy did not have yet
    bool is_other_data = false;  // other than the data on this machine
  };
  void index_cells() const;
  std::optional<std::string> find_text(const Cell& cell) const;
  std::optional<std::string> text_at(const std::string& key) const;
  std::optional<Candidate> best_candidate(const Cell& cell) const;
  std::optional<Candidate> best_match(const Cell& cell, bool lacks_options) const;
  void save_text(const Cell& cell, const std::string& text) const;

  std::filesystem::path path_;
  std::string program_;
  std::string machine_;
  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
  // The index of find_any, made by its first call: cells by their description without program and
  // data.
  mutable std::multimap<std::string, Candidate> candidates_;
  mutable std::map<std::string, std::size_t> programs_;                     // cells of each
  mutable std::map<std::string, std::map<std::string, std::size_t>> data_;  // by environment
  mutable bool is_indexed_ = false;
};

}  // namespace mcnb
