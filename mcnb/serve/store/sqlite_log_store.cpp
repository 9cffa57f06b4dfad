#include "mcnb/serve/store/sqlite_log_store.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/model/model_options.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_ranges.h"
#include "mcnb/serve/store/log_schema.h"
#include "mcnb/serve/store/log_tables.h"
#include "mcnb/serve/store/sqlite_transaction.h"

namespace mcnb {
namespace {

constexpr int kMostWalPages = 8 * 1024;  // beyond them a commit writes the WAL back itself

// SQLite then looks at every cell before it uses a page.
constexpr const char* kCheckCells = "PRAGMA cell_size_check = ON";

}  // namespace

SqliteLogStore::SqliteLogStore(const std::filesystem::path& folder, Access access,
                               const Lease* lease, const StoreOptions& options)
    : folder_(folder), path_(folder / kFileName), lease_(lease), options_(options) {
  const bool writes = access == Access::kReadWrite;
  std::error_code missing;
  const bool is_there = std::filesystem::file_size(path_, missing) > 0 && !missing;
  bool inspected = false;
  if (!writes || (is_there && !std::filesystem::exists(path_.string() + "-journal"))) {
    Database database(path_, writes ? Database::Access::kReadOnly : Database::Access::kUntouched);
    database.run(kCheckCells);
    if (writes && needs_log_schema(database)) {
      compare([] { return Acknowledged(); });
    } else {
      inspect(database);
      inspected = true;
    }
  } else if (!is_there) {
    compare([] { return Acknowledged(); });
  }
  if (writes) {
    writer_ = connect(Database::Access::kCreate);
    prepare_log_schema(writer_->database);
    if (!inspected) {
      inspect(writer_->database);
    }
    take_up_witness();
    keeper_ = connect(Database::Access::kReadWrite);
    insert_ = std::make_unique<Statement>(
        writer_->database,
        "INSERT INTO log(model, position, kind, time, user, body, checksum) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    reader_ = connect(Database::Access::kReadWrite);
  } else {
    reader_ = std::make_unique<Connection>(path_, Database::Access::kUntouched);
    reader_->database.run(kCheckCells);
  }
  read_ = std::make_unique<Statement>(
      reader_->database,
      "SELECT model, position, kind, time, user, body, checksum FROM log "
      "WHERE model = ?1 AND position = ?2");
  finder_ = std::make_unique<IdFinder>(reader_->database);
  last_model_id_ = highest_model_id();
}

SqliteLogStore::~SqliteLogStore() = default;

std::unique_ptr<SqliteLogStore::Connection> SqliteLogStore::connect(Database::Access access) const {
  auto connection = std::make_unique<Connection>(path_, access);
  Database& database = connection->database;
  if (database.number("SELECT count(*) FROM sqlite_schema") == 0) {
    database.run(fmt::format("PRAGMA page_size = {}", SqliteLogStore::kPageBytes).c_str());
  }
  // Database counts the pages of the WAL, which switches SQLite's own checkpoints off.
  database.run(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;"
      "PRAGMA cache_size = -8192; PRAGMA journal_size_limit = 67108864");
  database.run(kCheckCells);
  return connection;
}

std::uint64_t SqliteLogStore::id() {
  const Lock lock(reader_->mutex);
  return read_fact(reader_->database, facts::kFolder);
}

std::vector<StoredModel> SqliteLogStore::models() {
  const Lock lock(reader_->mutex);
  Database& database = reader_->database;
  const ReadTransaction transaction(database);
  std::vector<StoredModel> models = read_models(database);
  const std::vector<LogEnd> ends = read_log_ends(database);
  for (std::size_t i = 0; i < models.size(); ++i) {
    models[i].last_position = ends[i].position;
    complete_option_values(models[i].options);
  }
  return models;
}

std::uint32_t SqliteLogStore::highest_model_id() {
  const Lock lock(reader_->mutex);
  return static_cast<std::uint32_t>(read_fact(reader_->database, facts::kHighestModel));
}

std::vector<std::uint32_t> SqliteLogStore::models_with_rows() {
  const Lock lock(reader_->mutex);
  // Goes from one model to the next by the index, not row by row.
  Statement statement(reader_->database,
                      "SELECT model FROM log WHERE model > ?1 ORDER BY model LIMIT 1");
  std::vector<std::uint32_t> all;
  while (statement.bind(1, all.empty() ? -1 : std::int64_t{all.back()}).next()) {
    all.push_back(static_cast<std::uint32_t>(statement.number(0)));
    statement.reset();
  }
  return all;
}

void SqliteLogStore::commit(const Batch& batch) {
  check(writer_ != nullptr, "a store that is only read gets no batches");
  const Lock lock(writer_->mutex);
  Database& database = writer_->database;
  std::uint64_t number = 0;
  {
    Transaction transaction(gate_, lease_, database, true);
    for (const Batch::ModelChange& change : batch.models) {
      if (const auto* made = std::get_if<StoredModel>(&change)) {
        add_model(database, *made);
      } else {
        remove_model(database, std::get<std::uint32_t>(change));
      }
    }
    write_rows(batch);
    put_ids(database, batch.ids);
    for (const Erasure& erasure : batch.erasures) {
      put_erasure(database, erasure);
    }
    number = read_fact(database, facts::kCommit) + 1;
    write_fact(database, facts::kCommit, number);
    transaction.commit();
  }
  note_committed(batch, number);
  if (database.wal_pages() > kMostWalPages) {
    try {
      database.checkpoint();
    } catch (const Error&) {
      // The batch is durable. `maintain` will meet the error again and report it.
    }
  }
}

void SqliteLogStore::write_rows(const Batch& batch) {
  RangeChanges changes;
  for (const LogRow& row : batch.rows) {
    const std::uint64_t checksum = checksum_of(row);
    insert_->bind(1, row.model)
        .bind(2, to_signed(row.position))
        .bind(3, static_cast<std::int64_t>(row.kind))
        .bind(4, row.time)
        .bind(5, to_signed(row.user))
        .bind_bytes(6, row.body)
        .bind(7, to_signed(checksum))
        .finish();
    changes.add(row.model, row.position, checksum);
  }
  changes.write(writer_->database);
}

std::optional<EventId> SqliteLogStore::find_id(std::uint32_t model, std::uint64_t key) {
  const Lock lock(reader_->mutex);
  return finder_->find(model, key);
}

std::uint64_t SqliteLogStore::last_position(std::uint32_t model) {
  const Lock lock(reader_->mutex);
  Statement statement(reader_->database,
                      "SELECT max((SELECT coalesce(max(position), 0) FROM log WHERE model = ?1), "
                      "coalesce((SELECT last_position FROM models WHERE id = ?1), 0))");
  return statement.bind(1, model).next() ? to_unsigned(statement.number(0)) : 0;
}

std::optional<LogRow> SqliteLogStore::read(std::uint32_t model, std::uint64_t position) {
  const Lock lock(reader_->mutex);
  const Reset reset(*read_);
  if (!read_->bind(1, model).bind(2, to_signed(position)).next()) {
    return std::nullopt;
  }
  LogRow row = row_of(*read_);
  if (to_unsigned(read_->number(6)) != checksum_of(row)) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: model {}, log row {}: the checksum does not match: restore the "
                            "folder from a backup",
                            name(), row.model, row.position));
  }
  return row;
}

void SqliteLogStore::replay(std::uint32_t model, std::uint64_t after,
                            const std::function<void(const LogRow& row)>& visit) {
  const Lock lock(reader_->mutex);
  const ReadTransaction transaction(reader_->database);
  VerifiedRows rows(reader_->database, model, after);
  LogRow row;
  while (rows.next(row)) {
    visit(row);
  }
}

std::vector<Erasure> SqliteLogStore::erasures() {
  const Lock lock(reader_->mutex);
  const ReadTransaction transaction(reader_->database);
  return read_erasures(reader_->database);
}

void SqliteLogStore::probe() {
  const Lock lock(writer_->mutex);
  Transaction transaction(gate_, lease_, writer_->database, true);
  // As much as a large batch takes: a disk with room for only a few bytes counts as full.
  writer_->database.run("UPDATE probe SET bytes = randomblob(131072)");
  transaction.commit();
}

}  // namespace mcnb
