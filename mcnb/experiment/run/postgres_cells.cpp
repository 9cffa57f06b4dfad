#include <fmt/core.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/experiment/run/cell_table.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {
namespace {

using WaitClock = std::chrono::steady_clock;

constexpr std::int64_t kResultsLayout = 1;
constexpr auto kOutage = std::chrono::minutes(10);  // of the database, that is waited for

// A cell without a result waits for a program, or has been claimed by one. Keys are longer than
// what an index takes, so their digest is indexed.
constexpr const char* kResultsSchema[] = {
    "SELECT pg_advisory_xact_lock(5570459)",  // only one of several programs makes the tables
    "CREATE SCHEMA IF NOT EXISTS mcnb_results",
    "CREATE TABLE IF NOT EXISTS mcnb_results.layout(number bigint PRIMARY KEY)",
    "INSERT INTO mcnb_results.layout VALUES(1) ON CONFLICT DO NOTHING",
    "CREATE TABLE IF NOT EXISTS mcnb_results.cells(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY "
    "KEY, digest bytea NOT NULL UNIQUE, key text NOT NULL, environment text NOT NULL, policy text "
    "NOT NULL, seed bigint NOT NULL, rounds bigint NOT NULL, result text, claim bigint, beat "
    "timestamptz)",
    "CREATE TABLE IF NOT EXISTS mcnb_results.texts(name text PRIMARY KEY, text text NOT NULL)",
    "CREATE SEQUENCE IF NOT EXISTS mcnb_results.claims",
};

// The parameters of many rows, as arrays.
PostgresValues values_of(std::span<const CellRow> rows) {
  std::vector<std::string_view> texts[4];
  std::vector<std::int64_t> numbers[2];
  for (const CellRow& row : rows) {
    texts[0].push_back(row.key);
    texts[1].push_back(row.environment);
    texts[2].push_back(row.policy);
    texts[3].push_back(row.result);
    numbers[0].push_back(row.seed);
    numbers[1].push_back(row.rounds);
  }
  PostgresValues values;
  for (const std::vector<std::string_view>& column : texts) {
    values.all_bytes(column);
  }
  for (const std::vector<std::int64_t>& column : numbers) {
    values.numbers(column);
  }
  return values;
}

// Begins statements that insert the rows of `values_of`; `result` is the expression of the result.
// All programs insert in the same order, so that they never wait for each other in a circle.
std::string insert_rows(const char* result) {
  return fmt::format(
      "INSERT INTO mcnb_results.cells(digest, key, environment, policy, seed, rounds, result) "
      "SELECT sha256(key), convert_from(key, 'UTF8'), convert_from(environment, 'UTF8'), "
      "convert_from(policy, 'UTF8'), seed, rounds, {} FROM unnest($1, $2, $3, $4, $5, $6) AS "
      "rows(key, environment, policy, result, seed, rounds) ORDER BY 1 ",
      result);
}

class PostgresCells final : public CellTable, public CellClaims {
 public:
  explicit PostgresCells(const std::string& url) : url_(url) {
    connect();
    make_tables();
  }

  std::optional<std::string> find(const std::string& key) override {
    const PostgresRows rows = run(
        "SELECT result FROM mcnb_results.cells WHERE digest = sha256($1) AND result IS NOT NULL",
        PostgresValues().bytes(key));
    return rows.empty() ? std::nullopt : std::optional(rows.text(0, 0));
  }

  void put(const CellRow& row) override {
    run(insert_rows("convert_from(result, 'UTF8')") +
            "ON CONFLICT (digest) DO UPDATE SET result = excluded.result, claim = NULL",
        values_of({&row, 1}));
  }

  // A program that is running a cell of these finds its claim gone, and takes the result.
  std::size_t add(std::span<const CellRow> rows) override {
    return run(insert_rows("convert_from(result, 'UTF8')") +
                   "ON CONFLICT (digest) DO UPDATE SET result = excluded.result, claim = NULL "
                   "WHERE cells.result IS NULL",
               values_of(rows))
        .changed();
  }

  void visit(const std::function<void(const CellRow& row)>& visit) override {
    work([&](PostgresConnection& connection) {
      connection.stream(
          "SELECT key, environment, policy, seed, rounds, result FROM mcnb_results.cells WHERE "
          "result IS NOT NULL",
          {}, [&](const PostgresRows& row) {
            visit({row.text(0, 0), row.text(0, 1), row.text(0, 2), row.number(0, 3),
                   row.number(0, 4), row.text(0, 5)});
          });
    });
  }

  std::vector<std::string> keys() override {
    const PostgresRows rows =
        run("SELECT key FROM mcnb_results.cells WHERE result IS NOT NULL ORDER BY digest");
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      keys.push_back(rows.text(i, 0));
    }
    return keys;
  }

  bool has_environment(const std::string& name) override {
    return !run("SELECT 1 FROM mcnb_results.cells WHERE environment = $1 AND result IS NOT NULL "
                "LIMIT 1",
                PostgresValues().text(name))
                .empty();
  }

  std::size_t size() override {
    return static_cast<std::size_t>(
        run("SELECT count(*) FROM mcnb_results.cells WHERE result IS NOT NULL").number(0, 0));
  }

  std::map<std::string, std::string> texts() override {
    const PostgresRows rows = run("SELECT name, text FROM mcnb_results.texts");
    std::map<std::string, std::string> texts;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      texts.emplace(rows.text(i, 0), rows.text(i, 1));
    }
    return texts;
  }

  void change_text(
      const std::string& name,
      const std::function<std::string(const std::optional<std::string>&)>& change) override {
    work([&](PostgresConnection& connection) {
      try {
        connection.send("BEGIN");
        connection.send("LOCK TABLE mcnb_results.texts IN SHARE ROW EXCLUSIVE MODE");
        connection.send("SELECT text FROM mcnb_results.texts WHERE name = $1",
                        PostgresValues().text(name));
        const PostgresRows before = std::move(connection.finish().back());
        const std::string text =
            change(before.empty() ? std::nullopt : std::optional(before.text(0, 0)));
        connection.send(
            "INSERT INTO mcnb_results.texts VALUES($1, $2) ON CONFLICT (name) DO UPDATE SET text = "
            "excluded.text",
            PostgresValues().text(name).text(text));
        connection.send("COMMIT");
        connection.finish();
      } catch (...) {
        connection.drop();  // the transaction goes with the session
        throw;
      }
    });
  }

  CellClaims* claims() override { return this; }

  std::vector<std::int64_t> announce(std::span<const CellRow> cells) override {
    run(insert_rows("NULL") + "ON CONFLICT (digest) DO NOTHING", values_of(cells));
    std::vector<std::string_view> keys;
    for (const CellRow& cell : cells) {
      keys.push_back(cell.key);
    }
    return ids(
        run("SELECT cells.id FROM unnest($1) WITH ORDINALITY AS wanted(key, place) JOIN "
            "mcnb_results.cells ON digest = sha256(wanted.key) ORDER BY place",
            PostgresValues().all_bytes(keys)));
  }

  std::optional<CellClaim> claim(std::span<const std::int64_t> cells) override {
    const PostgresRows rows = run(
        "UPDATE mcnb_results.cells SET claim = nextval('mcnb_results.claims'), beat = "
        "clock_timestamp() WHERE id = (SELECT cells.id FROM unnest($1) WITH ORDINALITY AS "
        "wanted(id, place) JOIN mcnb_results.cells USING (id) WHERE result IS NULL AND (claim "
        "IS NULL OR beat < clock_timestamp() - $2 * interval '1 millisecond') ORDER BY place "
        "LIMIT 1 FOR UPDATE OF cells SKIP LOCKED) RETURNING id, claim",
        PostgresValues().numbers(cells).number(static_cast<std::int64_t>(kClaimSeconds * 1000)));
    if (rows.empty()) {
      return std::nullopt;
    }
    return CellClaim{rows.number(0, 0), rows.number(0, 1)};
  }

  void beat(std::span<const std::int64_t> numbers) override {
    run("UPDATE mcnb_results.cells SET beat = clock_timestamp() WHERE claim = ANY($1)",
        PostgresValues().numbers(numbers));
  }

  // If the connection is lost while the result is committed, it is sent again: then the claim is
  // gone, and the caller finds the result.
  bool finish(const CellClaim& claim, const std::string& result) override {
    return run("UPDATE mcnb_results.cells SET result = $3, claim = NULL WHERE id = $1 AND claim = "
               "$2 AND result IS NULL",
               PostgresValues().number(claim.cell).number(claim.number).text(result))
               .changed() > 0;
  }

  // Does not wait for a lost database: the claim runs out.
  void give_back(const CellClaim& claim) override {
    const std::lock_guard lock(mutex_);
    if (connection_ && !connection_->lost()) {
      connection_->run("UPDATE mcnb_results.cells SET claim = NULL WHERE id = $1 AND claim = $2",
                       PostgresValues().number(claim.cell).number(claim.number));
    }
  }

  std::vector<std::int64_t> finished(std::span<const std::int64_t> cells) override {
    return ids(run("SELECT id FROM mcnb_results.cells WHERE id = ANY($1) AND result IS NOT NULL",
                   PostgresValues().numbers(cells)));
  }

  void discard(std::int64_t cell, const std::string& result) override {
    run("UPDATE mcnb_results.cells SET result = NULL, claim = NULL WHERE id = $1 AND result = $2",
        PostgresValues().number(cell).text(result));
  }

 private:
  static std::vector<std::int64_t> ids(const PostgresRows& rows) {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ids.push_back(rows.number(i, 0));
    }
    return ids;
  }

  void connect() {
    connection_ = nullptr;
    connection_ = std::make_unique<PostgresConnection>(
        url_, PostgresOptions{.application = "mcnb reproduce", .patience_seconds = 60.0});
  }

  void make_tables() {
    if (connection_->run("SELECT to_regclass('mcnb_results.layout') IS NULL").number(0, 0) != 0) {
      try {
        for (const char* statement : kResultsSchema) {
          connection_->send(statement);
        }
        connection_->finish();
      } catch (const PostgresError& error) {
        throw Error(ErrorKind::kSystem,
                    fmt::format("{}: run it once as a user who may make the schema mcnb_results",
                                error.what()));
      }
    }
    const std::int64_t layout =
        connection_->run("SELECT max(number) FROM mcnb_results.layout").number(0, 0);
    if (layout != kResultsLayout) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: expected results of layout {}, found layout {}: use the version "
                              "of mcnb that wrote them",
                              connection_->name(), kResultsLayout, layout));
    }
  }

  // Does something with the connection; again with a new one while the database cannot be reached.
  template <class Work>
  std::invoke_result_t<Work, PostgresConnection&> work(Work work) {
    const std::lock_guard lock(mutex_);
    const WaitClock::time_point end = WaitClock::now() + kOutage;
    while (true) {
      try {
        if (!connection_ || connection_->lost()) {
          connect();
        }
        return work(*connection_);
      } catch (const PostgresError& error) {
        const bool may_repeat = error.lost() || error.state() == "40P01";  // a deadlock
        if (!may_repeat || WaitClock::now() > end) {
          throw;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  }

  PostgresRows run(const std::string& sql, const PostgresValues& values = {}) {
    return work([&](PostgresConnection& connection) { return connection.run(sql, values); });
  }

  std::string url_;
  std::mutex mutex_;
  std::unique_ptr<PostgresConnection> connection_;
};

}  // namespace

std::unique_ptr<CellTable> open_postgres_cells(const std::string& url) {
  return std::make_unique<PostgresCells>(url);
}

}  // namespace mcnb
