#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace mcnb {

// One connection to an SQLite database, for one thread at a time. Errors are Error naming the file:
// kCorrupt if SQLite finds it damaged, kSystem for everything else (disk full, no rights).
class Database {
 public:
  // kUntouched: reads only, and makes no files beside the database, so that the folder need not be
  // writable. If there is a WAL or a journal, somebody may be writing: it then acts as kReadOnly.
  enum class Access { kUntouched, kReadOnly, kReadWrite, kCreate };

  Database(const std::filesystem::path& path, Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements without results.
  void run(const char* sql);
  // The first column of the first row; 0 if there is no row.
  std::int64_t number(const char* sql);

  // Switches the database to a write-ahead log (WAL), for all connections. Waits for others that do
  // so at the same time, which SQLite itself does not.
  void use_wal();
  // Writes the WAL back into the database as far as no other connection needs it. `truncate`: and
  // empties it. Returns false if another connection was in the way.
  bool checkpoint(bool truncate = false);
  // The pages in the WAL after the last commit of this connection. Counting them switches SQLite's
  // own checkpoints off.
  int wal_pages() const { return wal_pages_; }

  // Overwrites with zeros what is left in unused parts of these pages (numbered from 1). SQLite's
  // secure_delete overwrites rows that are deleted, but not the copy that stays in a page when a
  // row moves to another one. Durable when it returns. Requires that the WAL is empty and nobody
  // writes meanwhile. Other connections keep what they have read: see `drop_pages`. A crash in the
  // middle leaves a sound database.
  void clear_unused(std::int64_t first_page, std::int64_t pages);
  // Drops the pages that this connection keeps in memory. Requires that no statement is running.
  void drop_pages();

  // Writes a copy of the database as it is now, while others go on writing. Requires a path that is
  // free.
  void copy_to(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  sqlite3* handle() { return handle_; }
  [[noreturn]] void fail(int code) const;
  void expect(int code, int wanted) const {
    if (code != wanted) {
      fail(code);
    }
  }

 private:
  std::string name_;
  sqlite3* handle_ = nullptr;
  int wal_pages_ = 0;
};

// A prepared statement.
class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters are numbered from 1. Texts and bytes must live until the statement has run.
  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, std::string_view text);
  Statement& bind_bytes(int parameter, std::string_view bytes);

  // Goes to the next row; false after the last.
  bool next();
  // Runs to the end. The statement can then run again.
  void finish();

  // Ends the run early.
  void reset() noexcept;

  // Columns are numbered from 0. Bytes live until the next row.
  std::int64_t number(int column) const;
  std::string_view bytes(int column) const;

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace mcnb
