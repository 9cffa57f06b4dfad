#pragma once

#include <cstdint>
#include <vector>

#include "mcnb/serve/store/storage.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {

// Verifies a log's database part by part: the small tables, the rows of every range against their
// digests, the ids, and at last what SQLite's own integrity_check finds. Each part is one read
// transaction. For one thread.
class LogScrub {
 public:
  // `largest_structure`: SQLite's check cannot be cut into parts, so it is left out for a database
  // of more bytes.
  LogScrub(Database& database, std::uint64_t largest_structure);

  bool finished() const { return stage_ == Stage::kFinished; }
  // Verifies the next part, appends what is damaged, and returns about how many bytes it read.
  // Throws Error (kSystem).
  std::uint64_t step(std::vector<Damage>& found);

 private:
  enum class Stage { kTables, kRows, kIds, kStructure, kFinished };

  std::uint64_t verify_tables(std::vector<Damage>& found);
  std::uint64_t verify_rows(std::vector<Damage>& found);
  std::uint64_t verify_structure(std::vector<Damage>& found);
  bool next_range();

  Database& database_;
  std::uint64_t largest_structure_;
  Stage stage_ = Stage::kTables;
  std::int64_t model_ = -1;
  std::int64_t range_ = -1;
  std::uint32_t bucket_ = 0;
};

}  // namespace mcnb
