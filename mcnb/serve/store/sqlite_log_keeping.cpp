// What the housekeeping does with the log: it erases, maintains and verifies.

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_ranges.h"
#include "mcnb/serve/store/log_tables.h"
#include "mcnb/serve/store/sqlite_log_store.h"
#include "mcnb/serve/store/sqlite_transaction.h"

namespace mcnb {
namespace {

using namespace std::chrono_literals;

// What is erased in one transaction: commits wait for it.
constexpr std::size_t kRowsAtOnce = 200;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 20;
constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::int64_t kPagesAtOnce = 1024;  // that are cleared while commits wait
constexpr std::size_t kIdsAtOnce = 500;
constexpr std::size_t kIdsPerSearch = 20'000;  // for old ones, at each call
constexpr std::int64_t kIdBytes = 64;          // of the disk, about
constexpr std::uintmax_t kCheckpointBytes =
    512 * SqliteLogStore::kPageBytes;  // of WAL that `maintain` writes back
constexpr auto kBetweenCheckpoints = 500ms;

// Half of the disk's time is left to commits.
void pause_as_long_as(std::chrono::steady_clock::time_point begin) {
  std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(
      std::chrono::steady_clock::now() - begin, kLongestPause));
}

}  // namespace

std::uint64_t SqliteLogStore::position_before(std::uint32_t model, std::int64_t time) {
  const Lock lock(keeper_->mutex);
  Statement next(keeper_->database,
                 "SELECT position, time FROM log WHERE model = ?1 AND position >= ?2 "
                 "ORDER BY position LIMIT 1");
  // Times never go back within a model. Rows up to `older` are older; from `young` on, none is.
  std::uint64_t older = 0;
  std::uint64_t young = std::uint64_t{1} << 62;
  while (older + 1 < young) {
    const std::uint64_t middle = older == 0 ? 1 : older + (young - older) / 2;
    const Reset reset(next);
    if (next.bind(1, model).bind(2, to_signed(middle)).next() && next.number(1) < time) {
      older = to_unsigned(next.number(0));
    } else {
      young = middle;
    }
  }
  return older;
}

std::uint64_t SqliteLogStore::position_at_share(std::uint32_t model, double share) {
  const Lock lock(keeper_->mutex);
  Statement ends(keeper_->database,
                 "SELECT (SELECT min(position) FROM log WHERE model = ?1), "
                 "(SELECT max(position) FROM log WHERE model = ?1)");
  if (!ends.bind(1, model).next() || ends.number(1) == 0) {
    return 0;
  }
  const std::uint64_t first = to_unsigned(ends.number(0));
  const auto count = static_cast<double>(to_unsigned(ends.number(1)) - first + 1);
  return first - 1 + static_cast<std::uint64_t>(count * std::clamp(share, 0.0, 1.0));
}

std::vector<SqliteLogStore::Sized> SqliteLogStore::rows_to_erase(Statement& statement) const {
  std::vector<Sized> rows;
  while (statement.next()) {
    rows.push_back({.id = statement.number(0),
                    .bytes = to_unsigned(statement.number(1)),
                    .model = static_cast<std::uint32_t>(statement.number(2)),
                    .position = to_unsigned(statement.number(3)),
                    .checksum = to_unsigned(statement.number(4))});
  }
  return rows;
}

void SqliteLogStore::erase(std::span<const Sized> rows) {
  Statement statement(keeper_->database, "DELETE FROM log WHERE id = ?1");
  while (!rows.empty()) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    while (count < rows.size() && count < kRowsAtOnce && bytes < kBytesAtOnce) {
      bytes += rows[count++].bytes;
    }
    const auto begin_time = std::chrono::steady_clock::now();
    {
      Transaction transaction(gate_, lease_, keeper_->database, false);
      RangeChanges changes;
      for (const Sized& row : rows.first(count)) {
        statement.bind(1, row.id).finish();
        changes.subtract(row.model, row.position, row.checksum);
      }
      changes.write(keeper_->database);
      transaction.commit();
    }
    rows = rows.subspan(count);
    pause_as_long_as(begin_time);
  }
}

void SqliteLogStore::erase(std::span<const EventId> ids) {
  while (!ids.empty()) {
    const auto begin_time = std::chrono::steady_clock::now();
    const std::size_t count = std::min(ids.size(), kIdsAtOnce);
    {
      Transaction transaction(gate_, lease_, keeper_->database, false);
      erase_ids(keeper_->database, ids.first(count));
      transaction.commit();
    }
    ids = ids.subspan(count);
    pause_as_long_as(begin_time);
  }
}

// Notes that rows of the model will be missing, and keeps its last position: positions are never
// used again, even if all rows go.
void SqliteLogStore::set_incomplete(std::uint32_t model) {
  Transaction transaction(gate_, lease_, keeper_->database, false);
  Statement last(keeper_->database, "SELECT coalesce(max(position), 0) FROM log WHERE model = ?1");
  const std::uint64_t position = last.bind(1, model).next() ? to_unsigned(last.number(0)) : 0;
  last.reset();
  change_model(keeper_->database, model, false, position);
  transaction.commit();
}

void SqliteLogStore::mark_incomplete(std::uint32_t model) {
  const Lock lock(keeper_->mutex);
  set_incomplete(model);
}

void SqliteLogStore::erase_until(std::uint32_t model, std::uint64_t position) {
  const Lock lock(keeper_->mutex);
  Statement statement(keeper_->database,
                      "SELECT id, length(body), model, position, checksum FROM log "
                      "WHERE model = ?1 AND position <= ?2 ORDER BY position LIMIT 2000");
  for (bool erased = false;; erased = true) {
    const auto rows = rows_to_erase(statement.bind(1, model).bind(2, to_signed(position)));
    if (rows.empty()) {
      if (erased) {  // also those of which rows were missing
        Transaction transaction(gate_, lease_, keeper_->database, false);
        drop_ranges(keeper_->database, model, position);
        transaction.commit();
      }
      return;
    }
    set_incomplete(model);
    erase(rows);
  }
}

void SqliteLogStore::erase_rows(std::uint32_t model) {
  const Lock lock(keeper_->mutex);
  Database& database = keeper_->database;
  {
    Statement statement(
        database, "SELECT id, length(body), model, position, checksum FROM log WHERE model = ?1");
    erase(rows_to_erase(statement.bind(1, model)));
  }
  // Keys are stored as signed numbers: this is the end of the model before.
  for (EventId last{.model = model - 1, .key = ~std::uint64_t{0} >> 1};;) {
    std::vector<EventId> ids = ids_after(database, last, kIdsPerSearch);
    std::erase_if(ids, [&](const EventId& id) { return id.model != model; });
    if (ids.empty()) {
      break;
    }
    last = ids.back();
    erase(ids);
  }
  Transaction transaction(gate_, lease_, database, false);
  drop_ranges(database, model, ~std::uint64_t{0} >> 1);
  transaction.commit();
}

void SqliteLogStore::erase_user(const Erasure& erasure) {
  const Lock lock(keeper_->mutex);
  set_incomplete(erasure.model);
  Statement statement(keeper_->database,
                      "SELECT id, length(body), model, position, checksum FROM log "
                      "WHERE model = ?1 AND position <= ?2 AND user = ?3");
  statement.bind(1, erasure.model).bind(2, to_signed(erasure.until));
  erase(rows_to_erase(statement.bind(3, to_signed(erasure.user))));
  erase(ids_of_user(keeper_->database, erasure));
  if (!clear_unused()) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: its WAL cannot be emptied because somebody reads it: send the "
                            "request again",
                            name()));
  }
  // Only now: an erasure that was cut short before this begins again at the next start.
  Transaction transaction(gate_, lease_, keeper_->database, false);
  remove_erasures(keeper_->database, erasure);
  transaction.commit();
}

void SqliteLogStore::expire_ids(std::int64_t time) {
  const Lock lock(keeper_->mutex);
  std::vector<EventId> ids = ids_after(keeper_->database, last_expired_, kIdsPerSearch);
  last_expired_ = ids.size() < kIdsPerSearch ? EventId{} : ids.back();
  std::erase_if(ids, [&](const EventId& id) { return id.time >= time; });
  erase(ids);
}

// Writes the whole WAL into the database, empties it, and clears what erased rows have left in
// pages, on the disk and in memory. Commits wait for one slice at a time. False if somebody was in
// the way.
bool SqliteLogStore::clear_unused() {
  Database& database = keeper_->database;
  for (std::int64_t page = 1; page <= database.number("PRAGMA page_count"); page += kPagesAtOnce) {
    const std::scoped_lock others(writer_->mutex, reader_->mutex);
    const WriteGate::Pass pass(gate_, false);
    if (!database.checkpoint(true)) {
      return false;
    }
    database.clear_unused(page, kPagesAtOnce);
    for (const auto& connection : {&writer_, &keeper_, &reader_}) {
      (*connection)->database.drop_pages();
    }
  }
  return true;
}

void SqliteLogStore::maintain() {
  const Lock lock(keeper_->mutex);
  std::error_code missing;
  const std::uintmax_t bytes = std::filesystem::file_size(path_.string() + "-wal", missing);
  const auto now = std::chrono::steady_clock::now();
  if (!missing && bytes > kCheckpointBytes && now - last_checkpoint_ > kBetweenCheckpoints) {
    keeper_->database.checkpoint();
    last_checkpoint_ = std::chrono::steady_clock::now();
  }
}

LogStore::Verified SqliteLogStore::verify_next(std::uint64_t bytes) {
  Connection& connection = keeper_ ? *keeper_ : *reader_;
  const Lock lock(connection.mutex);
  if (!scrub_) {
    scrub_.emplace(connection.database, options_.check_bytes);
  }
  Verified verified;
  while (!verified.finished && verified.bytes <= bytes) {
    verified.bytes += scrub_->step(verified.found);
    verified.finished = scrub_->finished();
  }
  if (verified.finished) {
    scrub_.reset();
  }
  return verified;
}

std::vector<Damage> SqliteLogStore::verify_all() {
  const Lock lock(reader_->mutex);
  LogScrub scrub(reader_->database, ~std::uint64_t{0});
  std::vector<Damage> found;
  while (!scrub.finished()) {
    scrub.step(found);
  }
  return found;
}

std::uint64_t SqliteLogStore::used_bytes() {
  const Lock lock(keeper_->mutex);
  Database& database = keeper_->database;
  const std::int64_t pages =
      database.number("PRAGMA page_count") - database.number("PRAGMA freelist_count");
  const std::int64_t bytes = pages * database.number("PRAGMA page_size");
  // Ids outlive trimming, so they must not make rows go. About as many bytes as they take:
  const std::int64_t ids =
      kIdBytes * database.number("SELECT coalesce(sum(row_count), 0) FROM event_id_digests");
  return to_unsigned(std::max<std::int64_t>(bytes - ids, 0));
}

}  // namespace mcnb
