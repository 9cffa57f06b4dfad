#include <fmt/core.h>

#include <filesystem>
#include <mutex>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/experiment/run/cell_table.h"
#include "mcnb/storage/sqlite.h"

namespace mcnb {
namespace {

constexpr std::int64_t kResultsApplication = 1296256578;  // "MCNB"

// Calls `body` in one transaction, which an exception undoes.
template <class Body>
void in_transaction(Database& database, const Body& body) {
  database.run("BEGIN IMMEDIATE");
  try {
    body();
    database.run("COMMIT");
  } catch (...) {
    database.run("ROLLBACK");
    throw;
  }
}

void bind_row(Statement& statement, const CellRow& row) {
  statement.bind(1, std::string_view(row.key))
      .bind(2, std::string_view(row.environment))
      .bind(3, std::string_view(row.policy))
      .bind(4, row.seed)
      .bind(5, row.rounds)
      .bind(6, std::string_view(row.result));
}

class SqliteCells final : public CellTable {
 public:
  SqliteCells(const std::filesystem::path& path, bool only_read)
      : database_(path, only_read ? Database::Access::kUntouched : Database::Access::kCreate) {
    if (!only_read) {
      make_tables();
    } else if (database_.number("PRAGMA application_id") != kResultsApplication) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: expected results of mcnb, found something else", path.string()));
    }
  }

  std::optional<std::string> find(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    Statement statement(database_, "SELECT result FROM cells WHERE key = ?1");
    if (!statement.bind(1, std::string_view(key)).next()) {
      return std::nullopt;
    }
    return std::string(statement.bytes(0));
  }

  void put(const CellRow& row) override {
    const std::lock_guard lock(mutex_);
    Statement statement(database_, "INSERT OR REPLACE INTO cells VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    bind_row(statement, row);
    statement.finish();
  }

  std::size_t add(std::span<const CellRow> rows) override {
    const std::lock_guard lock(mutex_);
    const std::int64_t before = database_.number("SELECT count(*) FROM cells");
    std::int64_t after = before;
    in_transaction(database_, [&] {
      Statement statement(database_, "INSERT OR IGNORE INTO cells VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
      for (const CellRow& row : rows) {
        bind_row(statement, row);
        statement.finish();
      }
      after = database_.number("SELECT count(*) FROM cells");
    });
    return static_cast<std::size_t>(after - before);
  }

  void visit(const std::function<void(const CellRow& row)>& visit) override {
    const std::lock_guard lock(mutex_);
    Statement cells(database_, "SELECT key, environment, policy, seed, rounds, result FROM cells");
    while (cells.next()) {
      visit({std::string(cells.bytes(0)), std::string(cells.bytes(1)), std::string(cells.bytes(2)),
             cells.number(3), cells.number(4), std::string(cells.bytes(5))});
    }
  }

  std::vector<std::string> keys() override {
    const std::lock_guard lock(mutex_);
    Statement statement(database_, "SELECT key FROM cells");
    std::vector<std::string> keys;
    while (statement.next()) {
      keys.emplace_back(statement.bytes(0));
    }
    return keys;
  }

  bool has_environment(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    Statement statement(database_, "SELECT 1 FROM cells WHERE environment = ?1 LIMIT 1");
    return statement.bind(1, std::string_view(name)).next();
  }

  std::size_t size() override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(database_.number("SELECT count(*) FROM cells"));
  }

  std::map<std::string, std::string> texts() override {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::string> texts;
    if (database_.number("SELECT count(*) FROM sqlite_schema WHERE name = 'texts'") > 0) {
      Statement statement(database_, "SELECT name, text FROM texts");
      while (statement.next()) {
        texts.emplace(statement.bytes(0), statement.bytes(1));
      }
    }
    return texts;
  }

  void change_text(
      const std::string& name,
      const std::function<std::string(const std::optional<std::string>&)>& change) override {
    const std::lock_guard lock(mutex_);
    in_transaction(database_, [&] {
      Statement read(database_, "SELECT text FROM texts WHERE name = ?1");
      std::optional<std::string> before;
      if (read.bind(1, std::string_view(name)).next()) {
        before = std::string(read.bytes(0));
      }
      read.reset();
      const std::string text = change(before);
      Statement(database_, "INSERT OR REPLACE INTO texts VALUES(?1, ?2)")
          .bind(1, std::string_view(name))
          .bind(2, std::string_view(text))
          .finish();
    });
  }

 private:
  void make_tables() {
    database_.run("BEGIN IMMEDIATE");  // only one of several programs makes the tables
    const std::int64_t kind = database_.number("PRAGMA application_id");
    if (kind == 0 && database_.number("SELECT count(*) FROM sqlite_schema") == 0) {
      database_.run(
          "CREATE TABLE IF NOT EXISTS cells(key TEXT PRIMARY KEY, environment TEXT, policy TEXT,"
          " seed INTEGER, rounds INTEGER, result TEXT) WITHOUT ROWID;"
          "PRAGMA application_id = 1296256578");
    } else if (kind != kResultsApplication) {
      throw Error(
          ErrorKind::kCorrupt,
          fmt::format("{}: expected results of mcnb, found another database", database_.name()));
    }
    database_.run("COMMIT");
    database_.use_wal();
    database_.run("PRAGMA synchronous = FULL");
    // A read-only file fails here, not after the first cell.
    database_.run(
        "CREATE TABLE IF NOT EXISTS texts(name TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;"
        "BEGIN IMMEDIATE; ROLLBACK");
  }

  std::mutex mutex_;
  Database database_;
};

}  // namespace

std::unique_ptr<CellTable> open_sqlite_cells(const std::string& path, bool only_read) {
  const std::filesystem::path file = path;
  if (only_read && !std::filesystem::exists(file)) {
    throw Error(ErrorKind::kInput, fmt::format("{}: there is no such file", path));
  }
  if (!only_read && file.has_parent_path()) {
    make_folder(file.parent_path());
  }
  return std::make_unique<SqliteCells>(file, only_read);
}

}  // namespace mcnb
