#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mcnb {

// A cell as it is kept. `key` says everything that the result depends on.
struct CellRow {
  std::string key;
  std::string environment;
  std::string policy;
  std::int64_t seed = 0;
  std::int64_t rounds = 0;
  std::string result;
};

// The right to run a cell until its heartbeats end. No two claims have the same number.
struct CellClaim {
  std::int64_t cell = 0;
  std::int64_t number = 0;
};

// A claim without a heartbeat for so long is free for others.
inline constexpr double kClaimSeconds = 60.0;

// Cells that programs on several machines share: each is claimed by one program at a time. All
// times are those of the clock that the programs share, the database's.
class CellClaims {
 public:
  virtual ~CellClaims() = default;

  // Makes rows for cells that have none yet. Returns the ids of all of them, in order. The rows'
  // results are ignored.
  virtual std::vector<std::int64_t> announce(std::span<const CellRow> cells) = 0;
  // Claims the first of these cells that has no result and that nobody has claimed.
  virtual std::optional<CellClaim> claim(std::span<const std::int64_t> cells) = 0;
  // Keeps claims from running out.
  virtual void beat(std::span<const std::int64_t> numbers) = 0;
  // Saves the result of a claimed cell. Returns false, and saves nothing, if the claim ran out and
  // another program took the cell.
  virtual bool finish(const CellClaim& claim, const std::string& result) = 0;
  // Frees the cell for others at once, if the claim still holds.
  virtual void give_back(const CellClaim& claim) = 0;
  // Those of these cells that have a result.
  virtual std::vector<std::int64_t> finished(std::span<const std::int64_t> cells) = 0;
  // Drops the result of a cell if it still is this one.
  virtual void discard(std::int64_t cell, const std::string& result) = 0;
};

// The rows of a CellStore: an SQLite file or a PostgreSQL database. Many threads may use one table,
// and many programs one file or database. Throws Error (kSystem, kCorrupt).
class CellTable {
 public:
  virtual ~CellTable() = default;

  // The result with this key.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  // Adds the row; replaces the one with its key.
  virtual void put(const CellRow& row) = 0;
  // Adds the rows with new keys. Returns their number.
  virtual std::size_t add(std::span<const CellRow> rows) = 0;
  virtual void visit(const std::function<void(const CellRow& row)>& visit) = 0;
  virtual std::vector<std::string> keys() = 0;
  virtual bool has_environment(const std::string& name) = 0;
  virtual std::size_t size() = 0;

  virtual std::map<std::string, std::string> texts() = 0;
  // Replaces a text by what `change` makes of it; nullopt stands for a missing text. No other
  // program can change the text between reading and writing. `change` may be called again.
  virtual void change_text(
      const std::string& name,
      const std::function<std::string(const std::optional<std::string>&)>& change) = 0;

  // nullptr if programs cannot share its cells.
  virtual CellClaims* claims() { return nullptr; }
};

// Opens an SQLite file. It makes the file if it is missing, unless it is only read; then it makes
// no files beside it either. Throws Error (kCorrupt) if it is not a results file.
std::unique_ptr<CellTable> open_sqlite_cells(const std::string& path, bool only_read);
// Opens the schema `mcnb_results` of a PostgreSQL database, and makes it if it is missing. When the
// connection is lost, all calls wait for the database for some minutes.
std::unique_ptr<CellTable> open_postgres_cells(const std::string& url);

}  // namespace mcnb
