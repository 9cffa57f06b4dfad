// What the housekeeping does with the log: it erases and verifies.

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/postgres/log_rows.h"
#include "mcnb/serve/store/postgres/log_store.h"
#include "mcnb/serve/store/postgres/schema.h"

namespace mcnb {
namespace {

// Erased or verified in one transaction.
constexpr std::int64_t kRowsAtOnce = 1000;
constexpr std::int64_t kIdsAtOnce = 20'000;

// Erases the rows that `which` selects, at most so many, and takes them out of the digests of their
// ranges. Returns how many there were.
std::string erasing(const std::string& which) {
  return fmt::format(
      "WITH gone AS (DELETE FROM mcnb.log WHERE (model, position) IN (SELECT model, position FROM "
      "mcnb.log WHERE {} ORDER BY position LIMIT {}) RETURNING model, position, checksum, "
      "length(body) + {} AS size), sums AS (SELECT model, position / {} AS number, count(*) AS "
      "row_count, bit_xor(checksum) AS digest, sum(size)::bigint AS bytes FROM gone GROUP BY 1, "
      "2), less AS (UPDATE mcnb.ranges SET row_count = ranges.row_count - sums.row_count, digest = "
      "ranges.digest # sums.digest, bytes = ranges.bytes - sums.bytes FROM sums WHERE ranges.model "
      "= sums.model AND ranges.number = sums.number) SELECT count(*) FROM gone",
      which, kRowsAtOnce, kRowBytes, kRangePositions);
}

// Reads several statements as one state.
std::vector<PostgresRows> read_together(
    PostgresConnection& connection, bool in_transaction,
    const std::function<void(PostgresConnection& connection)>& fill) {
  if (!in_transaction) {
    connection.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  }
  fill(connection);
  if (!in_transaction) {
    connection.send("COMMIT");
  }
  std::vector<PostgresRows> results = connection.finish();
  if (!in_transaction) {
    results.erase(results.begin());
    results.pop_back();
  }
  return results;
}

}  // namespace

// Runs one statement of the housekeeping.
void PostgresLogStore::keep(const std::string& sql, const PostgresValues& values) {
  keeper_.call(lease_->application());
  keeper_.commit(lease_->epoch(),
                 [&](PostgresConnection& connection) { connection.send(sql, values); });
}

std::uint64_t PostgresLogStore::erase_some(const std::string& which, const PostgresValues& values) {
  keeper_.call(lease_->application());
  const std::string statement = erasing(which);
  const auto results = keeper_.commit(
      lease_->epoch(), [&](PostgresConnection& connection) { connection.send(statement, values); });
  return to_unsigned(results.front().number(0, 0));
}

// Notes that rows of the model will be missing, and keeps its last position: positions are never
// used again, even if all rows go.
void PostgresLogStore::set_incomplete(std::uint32_t model) {
  keep(
      "UPDATE mcnb.models SET complete = false, last_position = greatest(last_position, (SELECT "
      "max(position) FROM mcnb.log WHERE model = $1)) WHERE id = $1",
      PostgresValues().number(model));
}

void PostgresLogStore::erase_until(std::uint32_t model, std::uint64_t position) {
  const Lock lock(keeper_.mutex);
  const PostgresValues values = PostgresValues().number(model).number(to_signed(position));
  const bool some =
      !keeper_.open()
           .run("SELECT 1 FROM mcnb.log WHERE model = $1 AND position <= $2 LIMIT 1", values)
           .empty();
  if (!some) {
    return;
  }
  set_incomplete(model);
  while (erase_some("model = $1 AND position <= $2", values) > 0) {
  }
  // Also the digests of those of which rows were missing.
  keep("DELETE FROM mcnb.ranges WHERE model = $1 AND number < $2",
       PostgresValues().number(model).number(to_signed(range_of(position + 1))));
}

void PostgresLogStore::erase_rows(std::uint32_t model) {
  const Lock lock(keeper_.mutex);
  while (erase_some("model = $1", PostgresValues().number(model)) > 0) {
  }
  keep("DELETE FROM mcnb.event_ids WHERE model = $1", PostgresValues().number(model));
  keep("DELETE FROM mcnb.ranges WHERE model = $1", PostgresValues().number(model));
}

// No live row has the user any more. What vacuuming, the server's WAL and its standbys add to that
// is theirs (docs/GUARANTEES.md).
void PostgresLogStore::erase_user(const Erasure& erasure) {
  const Lock lock(keeper_.mutex);
  set_incomplete(erasure.model);
  const PostgresValues values = PostgresValues()
                                    .number(erasure.model)
                                    .number(to_signed(erasure.until))
                                    .number(to_signed(erasure.user));
  while (erase_some("model = $1 AND position <= $2 AND user_hash = $3", values) > 0) {
  }
  keep("DELETE FROM mcnb.event_ids WHERE model = $1 AND position <= $2 AND user_hash = $3", values);
  // Only now: an erasure that was cut short before this begins again at the next start.
  keep("DELETE FROM mcnb.erasures WHERE model = $1 AND until <= $2 AND user_hash = $3", values);
}

void PostgresLogStore::expire_ids(std::int64_t time) {
  const Lock lock(keeper_.mutex);
  const PostgresValues values = PostgresValues().number(time);
  if (keeper_.open().run("SELECT 1 FROM mcnb.event_ids WHERE time < $1 LIMIT 1", values).empty()) {
    return;
  }
  keep(fmt::format("DELETE FROM mcnb.event_ids WHERE (model, key) IN (SELECT model, key FROM "
                   "mcnb.event_ids WHERE time < $1 LIMIT {}) AND time < $1",
                   kIdsAtOnce),
       values);
}

// Calls `check`, and notes the damage that it finds.
void PostgresLogStore::note_damage(Verified& verified, const Damage& where,
                                   const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      throw;
    }
    verified.found.push_back({where.model, where.first, where.last, error.what()});
  }
}

// Verifies the next range of rows, or the next ids.
LogStore::Verified PostgresLogStore::verify_some(PostgresConnection& connection, bool together) {
  if (scrub_.ids) {
    return verify_ids(connection);
  }
  // The next range that has rows or a digest.
  const PostgresRows next = connection.run(
      fmt::format(
          "SELECT * FROM ((SELECT model::bigint, position / {0} AS number FROM mcnb.log "
          "WHERE (model, position) >= ($1, ($2 + 1) * {0}) ORDER BY model, position LIMIT "
          "1) UNION ALL (SELECT model, number FROM mcnb.ranges WHERE (model, number) > ($1, "
          "$2) ORDER BY model, number LIMIT 1)) AS ranges ORDER BY model, number LIMIT 1",
          kRangePositions),
      PostgresValues().number(scrub_.model).number(scrub_.number));
  if (next.empty()) {
    scrub_ = {-1, std::numeric_limits<std::int64_t>::max(), true};
    return {};
  }
  scrub_ = {next.number(0, 0), next.number(0, 1), false};
  return verify_range(connection, together);
}

LogStore::Verified PostgresLogStore::verify_ids(PostgresConnection& connection) {
  Verified verified;
  const PostgresRows ids = connection.run(
      fmt::format("SELECT {} FROM mcnb.event_ids WHERE (model, key) > ($1, $2) ORDER BY model, key "
                  "LIMIT {}",
                  kIdColumns, kRowsAtOnce),
      PostgresValues().number(scrub_.model).number(scrub_.number));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    note_damage(verified, {}, [&] { checked_id(ids, i, name_); });
    verified.bytes += kRowBytes;
    scrub_ = {ids.number(i, 0), ids.number(i, 1), true};
  }
  verified.finished = ids.empty();
  return verified;
}

// Compares the rows of a range with its digest.
LogStore::Verified PostgresLogStore::verify_range(PostgresConnection& connection, bool together) {
  const std::int64_t first = scrub_.number * static_cast<std::int64_t>(kRangePositions);
  const std::int64_t last = first + static_cast<std::int64_t>(kRangePositions) - 1;
  const std::vector<PostgresRows> parts =
      read_together(connection, together, [&](PostgresConnection& own) {
        own.send("SELECT row_count, digest FROM mcnb.ranges WHERE model = $1 AND number = $2",
                 PostgresValues().number(scrub_.model).number(scrub_.number));
        own.send(fmt::format("SELECT {} FROM mcnb.log WHERE model = $1 AND position BETWEEN $2 AND "
                             "$3 ORDER BY position",
                             kRowColumns),
                 PostgresValues().number(scrub_.model).number(first).number(last));
      });
  PostgresRange written;
  if (!parts[0].empty()) {
    written = {parts[0].number(0, 0), to_unsigned(parts[0].number(0, 1))};
  }
  Verified verified;
  PostgresRange found;
  const auto model = static_cast<std::uint32_t>(scrub_.model);
  for (std::size_t i = 0; i < parts[1].size(); ++i) {
    const std::uint64_t position = to_unsigned(parts[1].number(i, 1));
    note_damage(verified, {model, position, position, ""},
                [&] { checked_row(parts[1], i, name_); });
    found.add(to_unsigned(parts[1].number(i, 6)));
    verified.bytes += parts[1].bytes(i, 5).size() + kRowBytes;
  }
  if (found != written) {
    verified.found.push_back({model, std::max<std::uint64_t>(to_unsigned(first), 1),
                              to_unsigned(last), difference_of(found, written)});
  }
  return verified;
}

LogStore::Verified PostgresLogStore::verify_next(std::uint64_t bytes) {
  const Lock lock(keeper_.mutex);
  Verified verified;
  while (!verified.finished && verified.bytes <= bytes) {
    Verified more = verify_some(keeper_.open(), false);
    verified.bytes += more.bytes;
    verified.finished = more.finished;
    std::ranges::move(more.found, std::back_inserter(verified.found));
  }
  if (verified.finished) {
    scrub_ = {};
  }
  return verified;
}

std::vector<Damage> PostgresLogStore::verify_all() {
  const std::scoped_lock locks(reader_.mutex, keeper_.mutex);
  const Scrub before = std::exchange(scrub_, {});
  std::vector<Damage> found;
  for (bool finished = false; !finished;) {
    Verified more = verify_some(lease_ == nullptr ? look() : reader_.open(), lease_ == nullptr);
    finished = more.finished;
    std::ranges::move(more.found, std::back_inserter(found));
  }
  scrub_ = before;
  return found;
}

}  // namespace mcnb
