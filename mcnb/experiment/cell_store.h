#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "mcnb/experiment/runner.h"

namespace mcnb {

// What a cell's result depends on, as text: the environment with all its options, the policy, seed,
// rounds, and `program`, which stands for the code that computes it.
std::string cell_key(const Cell& cell, const std::string& program);

// Exact: numbers read back are the numbers written.
std::string result_to_json(const CellResult& result);
// Throws Error (kCorrupt) for text that result_to_json did not write.
CellResult result_from_json(const std::string& text);

// Finished cells in a folder, one file each, so that an interrupted experiment goes on where it was
// and a larger one reuses the smaller. Different cells may be saved at the same time.
class CellStore {
 public:
  // Makes the folder. Throws Error (kSystem) where it cannot be written to.
  CellStore(std::filesystem::path folder, std::string program);

  // The result of exactly this cell, computed by this program. Damaged files count as none.
  std::optional<CellResult> find(const Cell& cell) const;

  // Either the whole file is there afterwards or nothing. Throws Error (kSystem).
  void save(const Cell& cell, const CellResult& result) const;

  std::filesystem::path path_of(const Cell& cell) const;

 private:
  std::filesystem::path folder_;
  std::string program_;
};

}  // namespace mcnb
