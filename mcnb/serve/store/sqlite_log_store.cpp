#include "mcnb/serve/store/sqlite_log_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/base/option_codec.h"
#include "mcnb/serve/model/bytes.h"
#include "mcnb/serve/model/model_options.h"
#include "mcnb/serve/store/log_schema.h"

namespace mcnb {
namespace {

using namespace std::chrono_literals;

// What is erased in one transaction: commits wait for it.
constexpr std::size_t kRowsAtOnce = 200;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 20;
constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::uintmax_t kPageBytes = 8192;
constexpr std::uintmax_t kCheckpointBytes = 512 * kPageBytes;  // of WAL that `maintain` writes back
constexpr int kMostWalPages = 8 * 1024;      // beyond them a commit writes the WAL back itself
constexpr std::int64_t kPagesAtOnce = 1024;  // that are cleared while commits wait
constexpr auto kBetweenCheckpoints = 500ms;

std::int64_t to_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t to_unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::uint64_t checksum_of(const LogRow& row) {
  const std::uint64_t numbers[] = {row.position, row.model, static_cast<std::uint64_t>(row.kind),
                                   to_unsigned(row.time), row.user};
  const std::uint64_t head =
      hash_bytes({reinterpret_cast<const char*>(numbers), sizeof numbers}, 0);
  return hash_bytes(row.body, head);
}

std::string encode_options(const OptionValues& options) {
  ByteWriter out;
  write_options(out, options);
  out.put(hash_bytes(out.bytes()));
  return out.take();
}

OptionValues decode_options(std::string_view bytes, const std::string& what) {
  ByteReader in(bytes, what);
  OptionValues options = read_options(in);
  const auto checksum = in.get<std::uint64_t>();
  in.finish();
  if (checksum != hash_bytes(bytes.substr(0, bytes.size() - sizeof checksum))) {
    in.fail("the checksum does not match");
  }
  complete_option_values(options);
  return options;
}

// Resets a statement that is kept, also if reading its row throws: an open read keeps the WAL from
// being emptied.
class Reset {
 public:
  explicit Reset(Statement& statement) : statement_(statement) {}
  ~Reset() { statement_.reset(); }
  Reset(const Reset&) = delete;
  Reset& operator=(const Reset&) = delete;

 private:
  Statement& statement_;
};

}  // namespace

// A write transaction of one connection. Rolls back unless committed.
class SqliteLogStore::Transaction {
 public:
  Transaction(SqliteLogStore& store, Database& database, bool urgent)
      : pass_(store.gate_, urgent), database_(database), lease_(store.lease_) {
    require_lease();
    database_.run("BEGIN IMMEDIATE");
  }
  ~Transaction() {
    if (!committed_) {
      try {
        database_.run("ROLLBACK");
      } catch (const Error&) {
        // Nothing is open any more: SQLite rolls back by itself after some errors.
      }
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Throws also if the lease was lost meanwhile: what was written may be in files that are gone.
  void commit() {
    database_.run("COMMIT");
    committed_ = true;
    require_lease();
  }

 private:
  void require_lease() const {
    if (lease_ != nullptr) {
      lease_->require();
    }
  }

  WriteGate::Pass pass_;
  Database& database_;
  const Lease* lease_;
  bool committed_ = false;
};

SqliteLogStore::SqliteLogStore(const std::filesystem::path& folder, Access access,
                               const Lease* lease)
    : path_(folder / kFileName), lease_(lease) {
  if (access == Access::kReadWrite) {
    writer_ = connect(Database::Access::kCreate);
    prepare_log_schema(writer_->database);
    keeper_ = connect(Database::Access::kReadWrite);
    insert_ = std::make_unique<Statement>(
        writer_->database,
        "INSERT INTO log(model, position, kind, time, user, body, checksum) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    reader_ = connect(Database::Access::kReadWrite);
  } else {
    reader_ = std::make_unique<Connection>(path_, Database::Access::kUntouched);
    check_log_schema(reader_->database);
  }
  read_ = std::make_unique<Statement>(
      reader_->database,
      "SELECT model, position, kind, time, user, body, checksum FROM log "
      "WHERE model = ?1 AND position = ?2");
  last_model_id_ = highest_model_id();
}

SqliteLogStore::~SqliteLogStore() = default;

std::unique_ptr<SqliteLogStore::Connection> SqliteLogStore::connect(Database::Access access) const {
  auto connection = std::make_unique<Connection>(path_, access);
  Database& database = connection->database;
  if (database.number("SELECT count(*) FROM sqlite_schema") == 0) {
    database.run(fmt::format("PRAGMA page_size = {}", kPageBytes).c_str());
  }
  // Database counts the pages of the WAL, which switches SQLite's own checkpoints off.
  database.run(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;"
      "PRAGMA cache_size = -8192; PRAGMA journal_size_limit = 67108864");
  return connection;
}

std::uint64_t SqliteLogStore::id() {
  const Lock lock(reader_->mutex);
  return to_unsigned(reader_->database.number("SELECT value FROM facts WHERE name = 'folder'"));
}

std::vector<StoredModel> SqliteLogStore::models() {
  const Lock lock(reader_->mutex);
  Statement statement(
      reader_->database,
      "SELECT id, name, options, complete, max(last_position, coalesce("
      "(SELECT max(position) FROM log WHERE model = models.id), 0)) FROM models ORDER BY id");
  std::vector<StoredModel> models;
  while (statement.next()) {
    StoredModel model;
    model.id = static_cast<std::uint32_t>(statement.number(0));
    model.name = std::string(statement.bytes(1));
    model.options = decode_options(statement.bytes(2),
                                   fmt::format("{}: options of model {}", name(), model.name));
    model.complete = statement.number(3) != 0;
    model.last_position = to_unsigned(statement.number(4));
    models.push_back(std::move(model));
  }
  return models;
}

std::uint32_t SqliteLogStore::highest_model_id() {
  const Lock lock(reader_->mutex);
  return static_cast<std::uint32_t>(
      reader_->database.number("SELECT value FROM facts WHERE name = 'model'"));
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
  {
    Transaction transaction(*this, database, true);
    for (const Batch::ModelChange& change : batch.models) {
      if (const auto* made = std::get_if<StoredModel>(&change)) {
        put_model(*made);
      } else {
        Statement(database, "DELETE FROM models WHERE id = ?1")
            .bind(1, std::get<std::uint32_t>(change))
            .finish();
      }
    }
    for (const LogRow& row : batch.rows) {
      append(row);
    }
    for (const Erasure& erasure : batch.erasures) {
      Statement(database, "INSERT INTO erasures VALUES(?1, ?2, ?3)")
          .bind(1, erasure.model)
          .bind(2, to_signed(erasure.user))
          .bind(3, to_signed(erasure.until))
          .finish();
    }
    transaction.commit();
  }
  if (database.wal_pages() > kMostWalPages) {
    try {
      database.checkpoint();
    } catch (const Error&) {
      // The batch is durable. `maintain` will meet the error again and report it.
    }
  }
}

void SqliteLogStore::put_model(const StoredModel& model) {
  const std::string options = encode_options(model.options);
  Statement(writer_->database, "INSERT INTO models VALUES(?1, ?2, ?3, ?4, ?5)")
      .bind(1, model.id)
      .bind(2, std::string_view(model.name))
      .bind_bytes(3, options)
      .bind(4, model.complete ? 1 : 0)
      .bind(5, to_signed(model.last_position))
      .finish();
  Statement(writer_->database, "UPDATE facts SET value = max(value, ?1) WHERE name = 'model'")
      .bind(1, model.id)
      .finish();
}

void SqliteLogStore::append(const LogRow& row) {
  insert_->bind(1, row.model)
      .bind(2, to_signed(row.position))
      .bind(3, static_cast<std::int64_t>(row.kind))
      .bind(4, row.time)
      .bind(5, to_signed(row.user))
      .bind_bytes(6, row.body)
      .bind(7, to_signed(checksum_of(row)))
      .finish();
}

LogRow SqliteLogStore::row_of(Statement& statement) const {
  LogRow row;
  row.model = static_cast<std::uint32_t>(statement.number(0));
  row.position = to_unsigned(statement.number(1));
  row.kind = static_cast<EventKind>(statement.number(2));
  row.time = statement.number(3);
  row.user = to_unsigned(statement.number(4));
  row.body = std::string(statement.bytes(5));
  if (to_unsigned(statement.number(6)) != checksum_of(row)) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: model {}, log row {}: the checksum does not "
                                                 "match: restore the folder from a backup",
                                                 name(), row.model, row.position));
  }
  return row;
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
  read_->bind(1, model).bind(2, to_signed(position));
  return read_->next() ? std::optional(row_of(*read_)) : std::nullopt;
}

void SqliteLogStore::replay(std::uint32_t model, std::uint64_t after,
                            const std::function<void(const LogRow& row)>& visit) {
  const Lock lock(reader_->mutex);
  Statement statement(reader_->database,
                      "SELECT model, position, kind, time, user, body, checksum FROM log "
                      "WHERE model = ?1 AND position > ?2 ORDER BY position");
  statement.bind(1, model).bind(2, to_signed(after));
  while (statement.next()) {
    visit(row_of(statement));
  }
}

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

namespace {

template <class Row>
std::vector<Row> rows_to_erase(Statement& statement) {
  std::vector<Row> rows;
  while (statement.next()) {
    rows.push_back({statement.number(0), to_unsigned(statement.number(1))});
  }
  return rows;
}

}  // namespace

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
      Transaction transaction(*this, keeper_->database, false);
      for (const Sized& row : rows.first(count)) {
        statement.bind(1, row.id).finish();
      }
      transaction.commit();
    }
    rows = rows.subspan(count);
    // Half of the disk's time is left to commits.
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(
        std::chrono::steady_clock::now() - begin_time, kLongestPause));
  }
}

// Notes that rows of the model will be missing, and keeps its last position: positions are never
// used again, even if all rows go.
void SqliteLogStore::set_incomplete(std::uint32_t model) {
  Transaction transaction(*this, keeper_->database, false);
  Statement(keeper_->database,
            "UPDATE models SET complete = 0, last_position = max(last_position, coalesce("
            "(SELECT max(position) FROM log WHERE model = ?1), 0)) WHERE id = ?1")
      .bind(1, model)
      .finish();
  transaction.commit();
}

void SqliteLogStore::erase_until(std::uint32_t model, std::uint64_t position) {
  const Lock lock(keeper_->mutex);
  Statement statement(keeper_->database,
                      "SELECT id, length(body) FROM log WHERE model = ?1 AND position <= ?2 "
                      "ORDER BY position LIMIT 2000");
  for (;;) {
    const auto rows = rows_to_erase<Sized>(statement.bind(1, model).bind(2, to_signed(position)));
    if (rows.empty()) {
      return;
    }
    set_incomplete(model);
    erase(rows);
  }
}

void SqliteLogStore::erase_rows(std::uint32_t model) {
  const Lock lock(keeper_->mutex);
  Statement statement(keeper_->database, "SELECT id, length(body) FROM log WHERE model = ?1");
  erase(rows_to_erase<Sized>(statement.bind(1, model)));
}

std::vector<Erasure> SqliteLogStore::erasures() {
  const Lock lock(reader_->mutex);
  Statement statement(reader_->database, "SELECT model, user, until FROM erasures");
  std::vector<Erasure> all;
  while (statement.next()) {
    all.push_back({static_cast<std::uint32_t>(statement.number(0)),
                   to_unsigned(statement.number(1)), to_unsigned(statement.number(2))});
  }
  return all;
}

void SqliteLogStore::erase_user(const Erasure& erasure) {
  const Lock lock(keeper_->mutex);
  set_incomplete(erasure.model);
  Statement statement(keeper_->database,
                      "SELECT id, length(body) FROM log WHERE model = ?1 AND position <= ?2 "
                      "AND user = ?3");
  statement.bind(1, erasure.model).bind(2, to_signed(erasure.until));
  erase(rows_to_erase<Sized>(statement.bind(3, to_signed(erasure.user))));
  if (!clear_unused()) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: its WAL cannot be emptied because somebody reads it: send the "
                            "request again",
                            name()));
  }
  // Only now: an erasure that was cut short before this begins again at the next start.
  Transaction transaction(*this, keeper_->database, false);
  Statement(keeper_->database,
            "DELETE FROM erasures WHERE model = ?1 AND user = ?2 AND until <= ?3")
      .bind(1, erasure.model)
      .bind(2, to_signed(erasure.user))
      .bind(3, to_signed(erasure.until))
      .finish();
  transaction.commit();
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

void SqliteLogStore::probe() {
  const Lock lock(writer_->mutex);
  Transaction transaction(*this, writer_->database, true);
  // As much as a large batch takes: a disk with room for only a few bytes counts as full.
  writer_->database.run("UPDATE probe SET bytes = randomblob(131072)");
  transaction.commit();
}

std::uint64_t SqliteLogStore::used_bytes() {
  const Lock lock(keeper_->mutex);
  Database& database = keeper_->database;
  const std::int64_t pages =
      database.number("PRAGMA page_count") - database.number("PRAGMA freelist_count");
  return to_unsigned(pages * database.number("PRAGMA page_size"));
}

void SqliteLogStore::copy_to(const std::filesystem::path& folder) {
  const Lock lock(keeper_->mutex);
  keeper_->database.copy_to(folder / kFileName);
}

}  // namespace mcnb
