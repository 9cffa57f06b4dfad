#include "mcnb/serve/store/log_scrub.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/event_ids.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_ranges.h"
#include "mcnb/serve/store/log_schema.h"
#include "mcnb/serve/store/log_tables.h"

namespace mcnb {
namespace {

// Runs a check and appends the damage that it throws.
template <class Check>
void collect(std::vector<Damage>& found, Check check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      throw;
    }
    found.push_back({0, 0, 0, error.what()});
  }
}

using RangeKey = std::pair<std::int64_t, std::int64_t>;  // model and number

// The first range after the given one for which the statement finds a row. Its first result is
// the model, its second the position or the number of the range.
std::optional<RangeKey> first_after(Database& database, const char* sql, const RangeKey& after,
                                    std::int64_t per_range) {
  Statement statement(database, sql);
  statement.bind(1, after.first).bind(2, (after.second + 1) * per_range);
  if (!statement.next()) {
    return std::nullopt;
  }
  return RangeKey{statement.number(0), statement.number(1) / per_range};
}

}  // namespace

LogScrub::LogScrub(Database& database, std::uint64_t largest_structure)
    : database_(database), largest_structure_(largest_structure) {}

std::uint64_t LogScrub::step(std::vector<Damage>& found) {
  const ReadTransaction transaction(database_);
  switch (stage_) {
    case Stage::kTables:
      stage_ = Stage::kRows;
      return verify_tables(found);
    case Stage::kRows:
      return verify_rows(found);
    case Stage::kIds: {
      const std::uint64_t bytes = verify_ids(database_, bucket_, found);
      if (++bucket_ == kIdBuckets) {
        stage_ = Stage::kStructure;
      }
      return bytes;
    }
    case Stage::kStructure:
      stage_ = Stage::kFinished;
      return verify_structure(found);
    case Stage::kFinished:
      break;
  }
  return 0;
}

std::uint64_t LogScrub::verify_tables(std::vector<Damage>& found) {
  collect(found, [&] { check_log_schema(database_); });
  collect(found, [&] { read_models(database_); });
  collect(found, [&] { read_erasures(database_); });
  for (const char* name : {facts::kHighestModel, facts::kFolder, facts::kCopy, facts::kCommit}) {
    collect(found, [&] { read_fact(database_, name); });
  }
  return 0;
}

// Goes to the next range that has rows or a digest. Returns false after the last.
bool LogScrub::next_range() {
  const RangeKey now{model_, range_};
  const auto by_row = first_after(database_,
                                  "SELECT model, position FROM log WHERE (model, position) >= "
                                  "(?1, ?2) ORDER BY model, position LIMIT 1",
                                  now, static_cast<std::int64_t>(kRangePositions));
  const auto by_digest = first_after(database_,
                                     "SELECT model, number FROM ranges WHERE (model, number) >= "
                                     "(?1, ?2) ORDER BY model, number LIMIT 1",
                                     now, 1);
  if (!by_row && !by_digest) {
    return false;
  }
  const RangeKey next =
      !by_digest ? *by_row : (!by_row ? *by_digest : std::min(*by_row, *by_digest));
  if (next <= now) {  // only in a damaged index: without this it would go round in circles
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: model {}: the index of the log is not in order: restore the "
                            "folder from a backup",
                            database_.name(), next.first));
  }
  model_ = next.first;
  range_ = next.second;
  return true;
}

std::uint64_t LogScrub::verify_rows(std::vector<Damage>& found) {
  bool more = false;
  collect(found, [&] { more = next_range(); });
  if (!more) {
    stage_ = Stage::kIds;
    return 0;
  }
  return verify_range(database_, static_cast<std::uint32_t>(model_),
                      static_cast<std::uint64_t>(range_), found);
}

std::uint64_t LogScrub::verify_structure(std::vector<Damage>& found) {
  const std::uint64_t bytes =
      to_unsigned(database_.number("PRAGMA page_count") * database_.number("PRAGMA page_size"));
  if (bytes > largest_structure_) {
    return 0;
  }
  collect(found, [&] {
    Statement check(database_, "PRAGMA integrity_check(10)");
    while (check.next()) {
      const std::string line(check.bytes(0));
      if (line != "ok") {
        found.push_back({0, 0, 0, fmt::format("{}: {}", database_.name(), line)});
      }
    }
  });
  return bytes;
}

}  // namespace mcnb
