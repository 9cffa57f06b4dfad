#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace mcnb {

// One connection to a SQLite database. Errors are Error: kCorrupt where SQLite finds the file
// damaged, kSystem for everything else (disk full, no rights), naming the file.
class Database {
 public:
  // kUntouched: read only, and nothing is made beside the file, not even for a moment, so that its
  // folder need not be writable either. Where a log lies beside the file, as kReadOnly: somebody
  // may be writing.
  enum class Access { kUntouched, kReadOnly, kReadWrite, kCreate };

  Database(const std::filesystem::path& path, Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Statements without results.
  void run(const char* sql);
  std::int64_t number(const char* sql);

  // Commits go to a log beside the database from now on, in every connection. Waits for others that
  // are about the same, which SQLite itself does not.
  void keep_log();
  // Writes what the log beside the database holds into it, as far as nobody is in the way.
  // `truncate`: and empties it. False where somebody was.
  bool checkpoint(bool truncate = false);
  // Pages in the log beside the database after the last commit of this connection.
  int log_pages() const { return log_pages_; }

  // A copy of the database as it is now, while others go on writing. Requires a path that is free.
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
  int log_pages_ = 0;
};

// A prepared statement.
class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Places count from 1. Texts and bytes must live until the statement has run.
  Statement& bind(int place, std::int64_t value);
  Statement& bind(int place, std::string_view text);
  Statement& bind_bytes(int place, std::string_view bytes);

  // True while there is a row.
  bool next();
  // Runs to the end, and is ready to run again.
  void finish();

  // Ends it early; does not throw.
  void reset() noexcept;

  // Columns count from 0; texts and bytes live until the next row.
  std::int64_t number(int column) const;
  std::string_view bytes(int column) const;

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace mcnb
