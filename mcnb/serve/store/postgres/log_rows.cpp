// What the store reads of the log: rows and ids, each verified by its checksum.

#include "mcnb/serve/store/postgres/log_rows.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/postgres/log_store.h"

namespace mcnb {
namespace {

using Ranges = std::map<std::uint64_t, PostgresRange>;

constexpr std::uint64_t kLargest = ~std::uint64_t{0} >> 1;  // position

[[noreturn]] void fail_rows(const std::string& store, const Damage& damage) {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: {}: restore the database from a backup", store, text_of(damage)));
}

std::uint64_t first_position(std::uint64_t range) {
  return std::max<std::uint64_t>(range * kRangePositions, 1);
}

// What should be in the ranges of a model from one on.
Ranges written_ranges(PostgresConnection& connection, std::uint32_t model, std::uint64_t first) {
  const PostgresRows rows = connection.run(
      "SELECT number, row_count, digest FROM mcnb.ranges WHERE model = $1 AND number >= $2",
      PostgresValues().number(model).number(to_signed(first)));
  Ranges ranges;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ranges[to_unsigned(rows.number(i, 0))] = {rows.number(i, 1), to_unsigned(rows.number(i, 2))};
  }
  std::erase_if(ranges, [](const auto& entry) { return entry.second == PostgresRange{}; });
  return ranges;
}

std::uint64_t last_row(PostgresConnection& connection, std::uint32_t model) {
  const PostgresRows rows =
      connection.run("SELECT coalesce(max(position), 0) FROM mcnb.log WHERE model = $1",
                     PostgresValues().number(model));
  return to_unsigned(rows.number(0, 0));
}

// Reads the rows of a model after a position, and compares all ranges with what was written.
void replay_rows(PostgresConnection& connection, const std::string& store, std::uint32_t model,
                 std::uint64_t after, const std::function<void(const LogRow& row)>& visit) {
  const std::uint64_t first = range_of(after);
  const Ranges written = written_ranges(connection, model, first);
  Ranges found;
  const PostgresRows head = connection.run(
      "SELECT checksum FROM mcnb.log WHERE model = $1 AND position BETWEEN $2 AND $3",
      PostgresValues()
          .number(model)
          .number(to_signed(first_position(first)))
          .number(to_signed(after)));
  for (std::size_t i = 0; i < head.size(); ++i) {
    found[first].add(to_unsigned(head.number(i, 0)));
  }
  connection.stream(
      fmt::format("SELECT {} FROM mcnb.log WHERE model = $1 AND position > $2 ORDER BY position",
                  kRowColumns),
      PostgresValues().number(model).number(to_signed(after)), [&](const PostgresRows& rows) {
        const LogRow row = checked_row(rows, 0, store);
        found[range_of(row.position)].add(checksum_of(row));
        visit(row);
      });
  Ranges all = written;
  all.insert(found.begin(), found.end());
  for (const auto& [number, unused] : all) {
    const auto there = found.find(number);
    const auto wanted = written.find(number);
    const PostgresRange own = there == found.end() ? PostgresRange{} : there->second;
    const PostgresRange was = wanted == written.end() ? PostgresRange{} : wanted->second;
    if (own != was) {
      fail_rows(store, {model, first_position(number), (number + 1) * kRangePositions - 1,
                        difference_of(own, was)});
    }
  }
}

}  // namespace

std::string difference_of(const PostgresRange& found, const PostgresRange& written) {
  return found.rows == written.rows
             ? "the digest of the rows does not match: a row was replaced"
             : fmt::format("there are {} rows where {} were written", found.rows, written.rows);
}

LogRow checked_row(const PostgresRows& rows, std::size_t i, const std::string& store) {
  LogRow row;
  row.model = static_cast<std::uint32_t>(rows.number(i, 0));
  row.position = to_unsigned(rows.number(i, 1));
  row.kind = static_cast<EventKind>(rows.number(i, 2));
  row.time = rows.number(i, 3);
  row.user = to_unsigned(rows.number(i, 4));
  row.body = rows.text(i, 5);
  if (to_unsigned(rows.number(i, 6)) != checksum_of(row)) {
    fail_rows(store, {row.model, row.position, row.position, "the checksum does not match"});
  }
  return row;
}

EventId checked_id(const PostgresRows& rows, std::size_t i, const std::string& store) {
  const EventId id{.model = static_cast<std::uint32_t>(rows.number(i, 0)),
                   .key = to_unsigned(rows.number(i, 1)),
                   .position = to_unsigned(rows.number(i, 2)),
                   .time = rows.number(i, 3),
                   .user = to_unsigned(rows.number(i, 4))};
  if (to_unsigned(rows.number(i, 5)) != checksum_of(id)) {
    fail_rows(store, {id.model, id.position, id.position,
                      "the checksum of the id of its event does not match"});
  }
  return id;
}

std::optional<LogRow> PostgresLogStore::read(std::uint32_t model, std::uint64_t position) {
  return reading([&](PostgresConnection& connection) -> std::optional<LogRow> {
    const PostgresRows rows = connection.run(
        fmt::format("SELECT {} FROM mcnb.log WHERE model = $1 AND position = $2", kRowColumns),
        PostgresValues().number(model).number(to_signed(position)));
    return rows.empty() ? std::nullopt : std::optional(checked_row(rows, 0, name_));
  });
}

std::optional<EventId> PostgresLogStore::find_id(std::uint32_t model, std::uint64_t key) {
  return reading([&](PostgresConnection& connection) -> std::optional<EventId> {
    const PostgresRows rows = connection.run(
        fmt::format("SELECT {} FROM mcnb.event_ids WHERE model = $1 AND key = $2", kIdColumns),
        PostgresValues().number(model).number(to_signed(key)));
    return rows.empty() ? std::nullopt : std::optional(checked_id(rows, 0, name_));
  });
}

void PostgresLogStore::visit_ids(const std::function<void(const EventId& id)>& visit) {
  const Lock lock(reader_.mutex);
  PostgresConnection& connection = lease_ == nullptr ? look() : reader_.open();
  connection.stream(fmt::format("SELECT {} FROM mcnb.event_ids ORDER BY model, key", kIdColumns),
                    {}, [&](const PostgresRows& rows) { visit(checked_id(rows, 0, name_)); });
}

void PostgresLogStore::replay(std::uint32_t model, std::uint64_t after,
                              const std::function<void(const LogRow& row)>& visit) {
  const Lock lock(reader_.mutex);
  if (lease_ == nullptr) {
    replay_rows(look(), name_, model, after, visit);
    return;
  }
  PostgresConnection& connection = reader_.open();
  connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  try {
    replay_rows(connection, name_, model, after, visit);
    connection.run("COMMIT");
  } catch (...) {
    connection.drop();  // the transaction goes with the session
    throw;
  }
}

std::uint64_t PostgresLogStore::position_before(std::uint32_t model, std::int64_t time) {
  return reading([&](PostgresConnection& connection) {
    // Times never go back within a model. Rows up to `older` are older; from `young` on, none is.
    std::uint64_t older = 0;
    std::uint64_t young = kLargest;
    const auto look_at = [&](std::uint64_t middle) {
      const PostgresRows rows = connection.run(
          "SELECT position, time FROM mcnb.log WHERE model = $1 AND position >= $2 ORDER BY "
          "position LIMIT 1",
          PostgresValues().number(model).number(to_signed(middle)));
      if (!rows.empty() && rows.number(0, 1) < time) {
        older = to_unsigned(rows.number(0, 0));
      } else {
        young = middle;
      }
    };
    look_at(1);
    if (older > 0) {
      young = last_row(connection, model) + 1;
    }
    while (older + 1 < young && older > 0) {
      look_at(older + (young - older) / 2);
    }
    return older;
  });
}

std::uint64_t PostgresLogStore::position_at_share(std::uint32_t model, double share) {
  return reading([&](PostgresConnection& connection) -> std::uint64_t {
    const PostgresRows rows =
        connection.run("SELECT min(position), max(position) FROM mcnb.log WHERE model = $1",
                       PostgresValues().number(model));
    if (rows.is_null(0, 0)) {
      return 0;
    }
    const std::uint64_t first = to_unsigned(rows.number(0, 0));
    const auto count = static_cast<double>(to_unsigned(rows.number(0, 1)) - first + 1);
    return first - 1 + static_cast<std::uint64_t>(count * std::clamp(share, 0.0, 1.0));
  });
}

std::uint64_t PostgresLogStore::used_bytes() {
  return reading([](PostgresConnection& connection) {
    return to_unsigned(
        connection.run("SELECT coalesce(sum(bytes), 0)::bigint FROM mcnb.ranges").number(0, 0));
  });
}

}  // namespace mcnb
