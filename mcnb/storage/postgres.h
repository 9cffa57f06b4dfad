#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/error.h"

struct pg_conn;
struct pg_result;

namespace mcnb {

// A refusal of a PostgreSQL server, or of the network on the way to it. Its kind is kSystem.
class PostgresError : public Error {
 public:
  PostgresError(const std::string& message, std::string state, bool lost)
      : Error(ErrorKind::kSystem, message), state_(std::move(state)), lost_(lost) {}

  // The server's five letters for the reason (SQLSTATE); empty if it did not answer.
  const std::string& state() const { return state_; }
  // The connection is of no more use, and nobody knows whether the server did what was asked last.
  bool lost() const { return lost_; }

 private:
  std::string state_;
  bool lost_;
};

// The values of a statement's parameters $1, $2, ..., in order. Keeps copies.
class PostgresValues {
 public:
  PostgresValues& number(std::int64_t value);
  PostgresValues& text(std::string_view value);
  PostgresValues& bytes(std::string_view value);
  // Arrays, for unnest: bigint[] and bytea[].
  PostgresValues& numbers(std::span<const std::int64_t> values);
  PostgresValues& all_bytes(std::span<const std::string_view> values);

 private:
  friend class PostgresConnection;
  struct Value {
    unsigned type;  // the server's number of the type
    std::string bytes;
  };
  std::vector<Value> values_;
};

// What a statement returned. Rows and columns are numbered from 0.
class PostgresRows {
 public:
  explicit PostgresRows(pg_result* result) : result_(result) {}

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  // An integer or boolean column.
  std::int64_t number(std::size_t row, int column) const;
  // A column of text or bytes; lives as long as the rows.
  std::string_view bytes(std::size_t row, int column) const;
  std::string text(std::size_t row, int column) const { return std::string(bytes(row, column)); }
  bool is_null(std::size_t row, int column) const;
  // How many rows the statement inserted, changed or deleted.
  std::uint64_t changed() const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

struct PostgresOptions {
  std::string application = "mcnb";  // what the server calls the session
  double patience_seconds = 30.0;    // for the answer to one exchange
};

// What messages call the database of a URL: without the password. Throws Error (kUsage) if it is no
// connection URL or string of PostgreSQL.
std::string postgres_name(const std::string& url);
// Whether a text names a PostgreSQL database (postgresql://... or postgres://...).
bool is_postgres_url(std::string_view text);

// One session of a PostgreSQL server, for one thread at a time. Of several servers in the URL it
// takes the one that can be written. Statements are sent together (pipeline mode) and kept
// prepared; parameters and results travel as binary. Throws PostgresError, and Error (kUsage) for a
// bad URL.
class PostgresConnection {
 public:
  explicit PostgresConnection(const std::string& url, const PostgresOptions& options = {});
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // Runs one statement.
  PostgresRows run(const std::string& sql, const PostgresValues& values = {});
  // Queues a statement. What is queued between two `finish` is one transaction, unless it contains
  // BEGIN.
  void send(const std::string& sql, const PostgresValues& values = {});
  // Sends all that is queued and returns what each statement returned, in order. Throws the first
  // error; the server skips the statements after it.
  std::vector<PostgresRows> finish();
  // Runs one statement and gives its rows to `visit` one by one, so that few are in memory. Runs
  // to the end, or drops the connection, if `visit` throws.
  void stream(const std::string& sql, const PostgresValues& values,
              const std::function<void(const PostgresRows& row)>& visit);

  // The warnings that came with the last exchange: state and text of each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // True once the connection is of no more use.
  bool lost() const { return lost_; }
  // Ends the connection without a word, as if the network had.
  void drop() { lost_ = true; }
  const std::string& name() const { return name_; }

 private:
  struct Sent {
    bool prepares = false;  // it prepares the statement after it
    std::string sql;
  };

  void connect(const std::string& url, const PostgresOptions& options);
  void flush();
  void wait(bool for_room);
  pg_result* next_result();
  void collect_sync();
  PostgresError error_of(const pg_result* result);
  [[noreturn]] void lose(const std::string& why);
  void require_success(bool success);

  std::string name_;
  double patience_seconds_;
  std::int64_t deadline_ = 0;  // of the present exchange, on the steady clock, in nanoseconds
  pg_conn* handle_ = nullptr;
  bool lost_ = false;
  std::map<std::string, std::string> prepared_;  // names of statements, by their text
  std::uint64_t last_statement_ = 0;
  std::vector<Sent> sent_;
  std::vector<std::string> warnings_;
};

}  // namespace mcnb
