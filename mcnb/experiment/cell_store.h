#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/experiment/runner.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// What a cell's result depends on, as text: the environment with all its options, the policy, seed,
// rounds, and `program`, which stands for the code that computes it.
std::string cell_key(const Cell& cell, const std::string& program);

// Exact: numbers read back are the numbers written.
std::string result_to_json(const CellResult& result);
// Throws Error (kCorrupt) for text that result_to_json did not write.
CellResult result_from_json(const std::string& text);

// By which program, on which machine and on what day a result was made; the last two are empty in
// files from before they were kept.
struct Origin {
  std::string program;
  std::string machine;
  std::string date;  // 2026-11-16
};

struct StoredCell {
  CellResult result;
  Origin origin;
};

// Finished cells in one SQLite file, so that an interrupted experiment goes on where it was, a
// larger one reuses the smaller, and several machines can share the work. May be used from many
// threads, and the file by several programs at once.
class CellStore {
 public:
  // `program` stands for the code that computes cells: results of another are not found. `machine`
  // is kept with what is saved. Makes the file, and its folder, where need be. Throws Error:
  // kSystem where it cannot be written to, kCorrupt where it is no such file.
  CellStore(const std::filesystem::path& path, std::string program, std::string machine = {});

  // The result of exactly this cell, computed by this program.
  std::optional<StoredCell> find(const Cell& cell) const;

  // Either the whole result is on disk afterwards or nothing. Throws Error (kSystem).
  void save(const Cell& cell, const CellResult& result) const;

  // The result of this cell by whatever program, for reports of what has been run: this program's
  // where it has one, else that of the program with the most cells of the file. The data need not
  // be here; all cells of an environment are of the same data, what is here before what most cells
  // have.
  std::optional<StoredCell> find_any(const Cell& cell) const;
  std::optional<std::string> find_any_failure(const Cell& cell) const;
  // Whether there is a cell of an environment of that name.
  bool has_any_of(const std::string& environment) const;

  // Why exactly this cell, played by this program, could not be played to its end.
  std::optional<std::string> find_failure(const Cell& cell) const;
  void save_failure(const Cell& cell, const std::string& why) const;

  // Texts beside the cells, by name: what has been asked for, and what is no cell.
  void keep_text(const std::string& name, const std::string& text) const;
  std::map<std::string, std::string> kept_texts() const;

  // Throws Error for what is no such file: kInput where there is none, kCorrupt for any other.
  static void expect_results(const std::filesystem::path& path);

  // Adds the cells and texts of another such file, which need not be writable, that this one has
  // not; says how many cells. Throws as expect_results does, and the constructor.
  std::size_t merge(const std::filesystem::path& other) const;

  // Cells in the file, of whatever program.
  std::size_t size() const;

  const std::filesystem::path& path() const { return path_; }
  const std::string& program() const { return program_; }
  // Of what is saved now.
  Origin origin() const;

 private:
  // Where a result is, and whose.
  struct Place {
    std::string program;
    std::string data;
    std::string key;
    bool is_other_data = false;  // than is here
  };
  void find_places() const;
  std::optional<std::string> find_text(const Cell& cell) const;
  std::optional<std::string> text_at(const std::string& key) const;
  std::optional<Place> find_place(const Cell& cell) const;
  void save_text(const Cell& cell, const std::string& text) const;

  std::filesystem::path path_;
  std::string program_;
  std::string machine_;
  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
  // For find_any, made when first asked for: by what a cell is, without program and data.
  mutable std::multimap<std::string, Place> places_;
  mutable std::map<std::string, std::size_t> programs_;                     // cells of each
  mutable std::map<std::string, std::map<std::string, std::size_t>> data_;  // by environment
  mutable bool knows_places_ = false;
};

}  // namespace mcnb
