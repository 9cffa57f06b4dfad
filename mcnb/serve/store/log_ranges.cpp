#include "mcnb/serve/store/log_ranges.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/log_checksums.h"

namespace mcnb {
namespace {

constexpr const char* kWrongChecksum = "the checksum does not match";

std::uint64_t checksum_of_range(std::uint32_t model, std::uint64_t range,
                                const RangeDigest& digest) {
  return checksum_of_numbers({model, range, digest.rows, digest.sum});
}

// Positions count from 1.
std::uint64_t first_of(std::uint64_t range) {
  return std::max<std::uint64_t>(range * kRangePositions, 1);
}
std::uint64_t last_of(std::uint64_t range) { return (range + 1) * kRangePositions - 1; }

std::string rows_missing(const RangeDigest& found, const RangeDigest& written) {
  return found.rows == written.rows
             ? "the digest of the rows does not match: a row was replaced"
             : fmt::format("there are {} rows where {} were written", found.rows, written.rows);
}

// Appends damage of one row, next to that of the row before it if it is of the same kind.
void add_damage(std::vector<Damage>& found, std::uint32_t model, std::uint64_t position,
                const std::string& what) {
  if (!found.empty() && found.back().model == model && found.back().what == what &&
      found.back().last + 1 == position) {
    found.back().last = position;
  } else {
    found.push_back({model, position, position, what});
  }
}

}  // namespace

void RangeChanges::add(std::uint32_t model, std::uint64_t position, std::uint64_t checksum) {
  changes_[{model, range_of(position)}].add(checksum);
}

void RangeChanges::subtract(std::uint32_t model, std::uint64_t position, std::uint64_t checksum) {
  RangeDigest& change = changes_[{model, range_of(position)}];
  --change.rows;  // modulo 2^64, like the sum
  change.sum -= checksum;
}

void RangeChanges::write(Database& database) {
  Statement put(database, "INSERT OR REPLACE INTO ranges VALUES(?1, ?2, ?3, ?4, ?5)");
  Statement drop(database, "DELETE FROM ranges WHERE model = ?1 AND number = ?2");
  for (const auto& [key, change] : changes_) {
    const auto [model, range] = key;
    RangeDigest digest = read_range(database, model, range);
    digest.rows += change.rows;
    digest.sum += change.sum;
    if (digest == RangeDigest{}) {
      drop.bind(1, model).bind(2, to_signed(range)).finish();
    } else {
      put.bind(1, model)
          .bind(2, to_signed(range))
          .bind(3, to_signed(digest.rows))
          .bind(4, to_signed(digest.sum))
          .bind(5, to_signed(checksum_of_range(model, range, digest)))
          .finish();
    }
  }
  changes_.clear();
}

RangeDigest read_range(Database& database, std::uint32_t model, std::uint64_t range) {
  Statement statement(
      database, "SELECT row_count, digest, checksum FROM ranges WHERE model = ?1 AND number = ?2");
  if (!statement.bind(1, model).bind(2, to_signed(range)).next()) {
    return {};
  }
  const RangeDigest digest{to_unsigned(statement.number(0)), to_unsigned(statement.number(1))};
  if (to_unsigned(statement.number(2)) != checksum_of_range(model, range, digest)) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: model {}, log rows {} to {}: the digest is damaged: restore the "
                            "folder from a backup",
                            database.name(), model, first_of(range), last_of(range)));
  }
  return digest;
}

void drop_ranges(Database& database, std::uint32_t model, std::uint64_t position) {
  Statement(database, "DELETE FROM ranges WHERE model = ?1 AND number < ?2")
      .bind(1, model)
      .bind(2, to_signed(range_of(position + 1)))
      .finish();
}

LogRow row_of(const Statement& statement) {
  LogRow row;
  row.model = static_cast<std::uint32_t>(statement.number(0));
  row.position = to_unsigned(statement.number(1));
  row.kind = static_cast<EventKind>(statement.number(2));
  row.time = statement.number(3);
  row.user = to_unsigned(statement.number(4));
  row.body = std::string(statement.bytes(5));
  return row;
}

VerifiedRows::VerifiedRows(Database& database, std::uint32_t model, std::uint64_t after)
    : database_(database), model_(model), range_(range_of(after)) {
  Statement head(database,
                 "SELECT checksum FROM log WHERE model = ?1 AND position BETWEEN ?2 AND ?3");
  head.bind(1, model).bind(2, to_signed(first_of(range_))).bind(3, to_signed(after));
  while (head.next()) {
    digest_.add(to_unsigned(head.number(0)));
  }
  rows_ = std::make_unique<Statement>(
      database,
      "SELECT model, position, kind, time, user, body, checksum FROM log "
      "WHERE model = ?1 AND position > ?2 ORDER BY position");
  rows_->bind(1, model).bind(2, to_signed(after));
  later_ranges_ = std::make_unique<Statement>(
      database,
      "SELECT number FROM ranges WHERE model = ?1 AND number > ?2 ORDER BY number LIMIT 1");
}

void VerifiedRows::fail(std::uint64_t first, std::uint64_t last, const std::string& what) const {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: {}: restore the folder from a backup", database_.name(),
                          text_of({model_, first, last, what})));
}

// Compares the range that was read with its digest, and goes to the next one that has a digest.
void VerifiedRows::finish_range() {
  const RangeDigest written = read_range(database_, model_, range_);
  if (written != digest_) {
    fail(first_of(range_), last_of(range_), rows_missing(digest_, written));
  }
  digest_ = {};
  later_ranges_->reset();
  later_ranges_->bind(1, model_).bind(2, to_signed(range_));
  range_ = later_ranges_->next() ? to_unsigned(later_ranges_->number(0)) : ~std::uint64_t{0};
}

bool VerifiedRows::next(LogRow& row) {
  const bool found = rows_->next();
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  if (found) {
    row = row_of(*rows_);
    const std::uint64_t checksum = to_unsigned(rows_->number(6));
    if (checksum != checksum_of(row)) {
      fail(row.position, row.position, kWrongChecksum);
    }
    while (range_ < range_of(row.position)) {
      finish_range();
    }
    if (range_ != range_of(row.position)) {
      fail(row.position, row.position, "the digest of its range is missing");
    }
    digest_.add(checksum);
    return true;
  }
  while (range_ != kNone) {
    finish_range();
  }
  return false;
}

std::uint64_t verify_range(Database& database, std::uint32_t model, std::uint64_t range,
                           std::vector<Damage>& found) {
  std::uint64_t bytes = 0;
  try {
    const RangeDigest written = read_range(database, model, range);
    Statement rows(database,
                   "SELECT model, position, kind, time, user, body, checksum FROM log "
                   "WHERE model = ?1 AND position BETWEEN ?2 AND ?3 ORDER BY position");
    rows.bind(1, model).bind(2, to_signed(first_of(range))).bind(3, to_signed(last_of(range)));
    RangeDigest digest;
    while (rows.next()) {
      const LogRow row = row_of(rows);
      const std::uint64_t checksum = to_unsigned(rows.number(6));
      digest.add(checksum);
      bytes += row.body.size() + 64;
      if (checksum != checksum_of(row)) {
        add_damage(found, model, row.position, kWrongChecksum);
      }
    }
    if (digest != written) {
      found.push_back({model, first_of(range), last_of(range), rows_missing(digest, written)});
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      throw;
    }
    found.push_back({model, first_of(range), last_of(range), error.what()});
  }
  return bytes;
}

}  // namespace mcnb
