#include "mcnb/serve/store/log_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/bytes.h"
#include "mcnb/serve/model/hash.h"
#include "mcnb/serve/store/snapshot_files.h"

namespace mcnb {
namespace {

constexpr std::int64_t kApplicationId = 0x4d434e42;  // "MCNB"
constexpr std::int64_t kLayout = 2;
// What is erased in one transaction: others wait for it.
constexpr std::size_t kRowsAtOnce = 200;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 20;
constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::size_t kMostOptions = 256;
constexpr std::size_t kLongestText = 4096;

constexpr const char* kSchema = R"(
BEGIN IMMEDIATE;
CREATE TABLE models(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options BLOB NOT NULL,
                    born INTEGER NOT NULL, whole INTEGER NOT NULL);
CREATE TABLE log(place INTEGER PRIMARY KEY, model INTEGER NOT NULL, kind INTEGER NOT NULL,
                 time INTEGER NOT NULL, user INTEGER NOT NULL, body BLOB NOT NULL,
                 checksum INTEGER NOT NULL);
CREATE INDEX log_of_model ON log(model);
CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE erasures(model INTEGER NOT NULL, user INTEGER NOT NULL, until INTEGER NOT NULL);
CREATE TABLE probe(bytes BLOB NOT NULL);
INSERT INTO facts VALUES('base', 0), ('last', 0), ('model', 0),
                        ('folder', random() & 0x7fffffffffffffff);
INSERT INTO probe VALUES(x'');
PRAGMA application_id = 0x4d434e42;
PRAGMA user_version = 2;
COMMIT;)";

std::int64_t plain(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t whole(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::uint64_t checksum_of(const LogRow& row, std::string_view body) {
  const std::uint64_t numbers[] = {row.place, row.model, static_cast<std::uint64_t>(row.kind),
                                   whole(row.time), row.user};
  const std::uint64_t head = hash_text({reinterpret_cast<const char*>(numbers), sizeof numbers}, 0);
  return hash_text(body, head);
}

std::string encode_options(const OptionValues& options) {
  ByteWriter out;
  out.put(static_cast<std::uint32_t>(options.size()));
  for (const auto& [name, text] : options) {
    out.put_text(name);
    out.put_text(text);
  }
  out.put(hash_text(out.bytes(), 0));
  return out.take();
}

OptionValues decode_options(std::string_view bytes, const std::string& what) {
  ByteReader in(bytes, what);
  OptionValues options;
  const auto count = in.get<std::uint32_t>();
  if (count > kMostOptions) {
    in.fail("more options than there are");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = in.get_text(kLongestText);
    options[name] = in.get_text(kLongestText);
  }
  const auto checksum = in.get<std::uint64_t>();
  in.finish();
  if (checksum != hash_text(bytes.substr(0, bytes.size() - sizeof checksum), 0)) {
    in.fail("a checksum does not match");
  }
  return options;
}

// The path of the database; not where it is missing beside snapshots, which only a database with
// their events can have made.
std::filesystem::path path_in(const std::filesystem::path& folder, LogStore::Access access) {
  std::filesystem::path path = folder / LogStore::kFileName;
  std::error_code missing;
  const std::uintmax_t size = std::filesystem::file_size(path, missing);
  if (access == LogStore::Access::kReadWrite && (missing || size == 0) && Snapshots(folder).any()) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: it is {}, but the folder has snapshots: restore it from a backup, "
                            "or move the snapshots away to begin anew",
                            path.string(), missing ? "missing" : "empty"));
  }
  return path;
}

}  // namespace

LogStore::LogStore(const std::filesystem::path& folder, Access access, WriteGate* gate, bool urgent)
    : gate_(gate),
      urgent_(urgent),
      database_(path_in(folder, access), access == Access::kReadOnly ? Database::Access::kReadOnly
                                                                     : Database::Access::kCreate) {
  if (access == Access::kReadWrite) {
    const bool fresh = database_.number("SELECT count(*) FROM sqlite_schema") == 0;
    if (fresh) {
      database_.run("PRAGMA page_size = 8192");
    }
    database_.run(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;"
        "PRAGMA secure_delete = ON; PRAGMA cache_size = -8192;"
        "PRAGMA journal_size_limit = 67108864");
    if (fresh) {
      database_.run(kSchema);
    }
  }
  const std::int64_t application = database_.number("PRAGMA application_id");
  const std::int64_t layout = database_.number("PRAGMA user_version");
  if (application != kApplicationId || layout != kLayout) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: expected a database of mcnb of layout {}", name(), kLayout));
  }
  // The hook of the connection takes the place of SQLite's own checkpoints: see Database.
  if (access == Access::kReadWrite) {
    insert_ = std::make_unique<Statement>(database_,
                                          "INSERT INTO log VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  }
  read_ = std::make_unique<Statement>(database_, "SELECT * FROM log WHERE place = ?1");
}

LogStore::~LogStore() { leave(); }

void LogStore::enter() {
  if (gate_ != nullptr) {
    gate_->enter(urgent_);
    inside_ = true;
  }
}

void LogStore::leave() noexcept {
  if (inside_) {
    inside_ = false;
    gate_->leave();
  }
}

std::vector<StoredModel> LogStore::models() {
  Statement statement(database_, "SELECT id, name, options, born, whole FROM models ORDER BY id");
  std::vector<StoredModel> models;
  while (statement.next()) {
    StoredModel model;
    model.id = static_cast<std::uint32_t>(statement.number(0));
    model.name = std::string(statement.bytes(1));
    model.options = decode_options(statement.bytes(2),
                                   fmt::format("{}: options of model {}", name(), model.name));
    model.born = whole(statement.number(3));
    model.whole = statement.number(4) != 0;
    models.push_back(std::move(model));
  }
  return models;
}

std::uint64_t LogStore::last_place() {
  const std::int64_t rows = database_.number("SELECT max(place) FROM log");
  return whole(std::max(rows, database_.number("SELECT value FROM facts WHERE name = 'last'")));
}

std::uint64_t LogStore::base_place() {
  return whole(database_.number("SELECT value FROM facts WHERE name = 'base'"));
}

std::uint32_t LogStore::last_model_id() {
  return static_cast<std::uint32_t>(
      database_.number("SELECT value FROM facts WHERE name = 'model'"));
}

std::uint64_t LogStore::folder_id() {
  return whole(database_.number("SELECT value FROM facts WHERE name = 'folder'"));
}

bool LogStore::has_model(std::uint32_t id) {
  Statement statement(database_, "SELECT 1 FROM models WHERE id = ?1");
  return statement.bind(1, id).next();
}

std::vector<std::uint32_t> LogStore::models_in_log() {
  // From one to the next by the index, not row by row.
  Statement statement(database_, "SELECT model FROM log WHERE model > ?1 ORDER BY model LIMIT 1");
  std::vector<std::uint32_t> all;
  while (statement.bind(1, all.empty() ? -1 : std::int64_t{all.back()}).next()) {
    all.push_back(static_cast<std::uint32_t>(statement.number(0)));
    statement.reset();
  }
  return all;
}

LogRow LogStore::row_of(Statement& statement) {
  LogRow row;
  row.place = whole(statement.number(0));
  row.model = static_cast<std::uint32_t>(statement.number(1));
  row.kind = static_cast<EventKind>(statement.number(2));
  row.time = statement.number(3);
  row.user = whole(statement.number(4));
  row.body = std::string(statement.bytes(5));
  if (whole(statement.number(6)) != checksum_of(row, row.body)) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: log row {}: a checksum does not match", name(), row.place));
  }
  return row;
}

void LogStore::read_after(std::uint64_t place, const std::function<void(const LogRow& row)>& row) {
  Statement statement(database_, "SELECT * FROM log WHERE place > ?1 ORDER BY place");
  statement.bind(1, plain(place));
  while (statement.next()) {
    row(row_of(statement));
  }
}

void LogStore::read_after(std::uint64_t place, std::uint32_t model,
                          const std::function<void(const LogRow& row)>& row) {
  Statement statement(database_,
                      "SELECT * FROM log WHERE model = ?1 AND place > ?2 ORDER BY place");
  statement.bind(1, model).bind(2, plain(place));
  while (statement.next()) {
    row(row_of(statement));
  }
}

std::optional<LogRow> LogStore::read(std::uint64_t place) {
  // Ready for the next call whatever happens: a damaged row is an exception.
  struct Ending {
    Statement& statement;
    ~Ending() { statement.reset(); }
  };
  const Ending ending{*read_};
  read_->bind(1, plain(place));
  return read_->next() ? std::optional(row_of(*read_)) : std::nullopt;
}

std::vector<LogStore::Sized> LogStore::sizes(Statement& statement) {
  std::vector<Sized> rows;
  while (statement.next()) {
    rows.push_back({whole(statement.number(0)), whole(statement.number(1))});
  }
  return rows;
}

std::uint64_t LogStore::last_place_before(std::int64_t time) {
  // Times go up with places, so the first row that is young enough ends the search.
  Statement statement(database_, "SELECT place FROM log WHERE time >= ?1 ORDER BY place LIMIT 1");
  statement.bind(1, time);
  return statement.next() ? whole(statement.number(0)) - 1 : last_place();
}

std::uint64_t LogStore::used_bytes() {
  const std::int64_t pages =
      database_.number("PRAGMA page_count") - database_.number("PRAGMA freelist_count");
  return whole(pages * database_.number("PRAGMA page_size"));
}

std::uint64_t LogStore::place_at_share(double share) {
  const std::int64_t first = database_.number("SELECT min(place) FROM log");
  const std::int64_t last = database_.number("SELECT max(place) FROM log");
  return whole(first) + static_cast<std::uint64_t>(static_cast<double>(last - first) *
                                                   std::clamp(share, 0.0, 1.0));
}

void LogStore::begin() {
  enter();
  try {
    database_.run("BEGIN IMMEDIATE");
  } catch (const Error&) {
    leave();
    throw;
  }
}

void LogStore::append(const LogRow& row) {
  insert_->bind(1, plain(row.place))
      .bind(2, row.model)
      .bind(3, static_cast<std::int64_t>(row.kind))
      .bind(4, row.time)
      .bind(5, plain(row.user))
      .bind_bytes(6, row.body)
      .bind(7, plain(checksum_of(row, row.body)))
      .finish();
}

void LogStore::put_model(const StoredModel& model) {
  const std::string options = encode_options(model.options);
  Statement(database_, "INSERT INTO models VALUES(?1, ?2, ?3, ?4, ?5)")
      .bind(1, model.id)
      .bind(2, std::string_view(model.name))
      .bind_bytes(3, options)
      .bind(4, plain(model.born))
      .bind(5, model.whole ? 1 : 0)
      .finish();
  Statement(database_, "UPDATE facts SET value = max(value, ?1) WHERE name = 'model'")
      .bind(1, model.id)
      .finish();
}

void LogStore::remove_model(std::uint32_t id) {
  Statement(database_, "DELETE FROM models WHERE id = ?1").bind(1, id).finish();
}

void LogStore::commit() {
  database_.run("COMMIT");
  leave();
}

void LogStore::roll_back() noexcept {
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {
    // Nothing was open any more: SQLite rolls back by itself after some errors.
  }
  leave();
}

// One transaction.
void LogStore::change(const std::function<void()>& work) {
  begin();
  try {
    work();
    commit();
  } catch (const Error&) {
    roll_back();
    throw;
  }
}

bool LogStore::checkpoint(bool truncate) {
  if (!truncate) {
    return database_.checkpoint();
  }
  // It locks writers out.
  enter();
  try {
    const bool whole_log = database_.checkpoint(true);
    leave();
    return whole_log;
  } catch (const Error&) {
    leave();
    throw;
  }
}

void LogStore::erase(std::span<const Sized> rows) {
  Statement statement(database_, "DELETE FROM log WHERE place = ?1");
  while (!rows.empty()) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    while (count < rows.size() && count < kRowsAtOnce && bytes < kBytesAtOnce) {
      bytes += rows[count++].bytes;
    }
    const auto begin_time = std::chrono::steady_clock::now();
    change([&] {
      for (const Sized& row : rows.first(count)) {
        statement.bind(1, plain(row.place)).finish();
      }
    });
    rows = rows.subspan(count);
    // Half of the disk's time is for others.
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(
        std::chrono::steady_clock::now() - begin_time, kLongestPause));
  }
}

void LogStore::keep_last_place() {
  // Places are never used again, even if all rows go.
  Statement(database_,
            "UPDATE facts SET value = max(value, coalesce((SELECT max(place) FROM log), 0)) "
            "WHERE name = 'last'")
      .finish();
}

void LogStore::erase_until(std::uint64_t place) {
  Statement statement(database_,
                      "SELECT place, length(body) FROM log WHERE place <= ?1 "
                      "ORDER BY place LIMIT 2000");
  for (;;) {
    const std::vector<Sized> rows = sizes(statement.bind(1, plain(place)));
    if (rows.empty()) {
      return;
    }
    change([&] {
      keep_last_place();
      Statement(database_, "UPDATE facts SET value = max(value, ?1) WHERE name = 'base'")
          .bind(1, plain(rows.back().place))
          .finish();
    });
    erase(rows);
  }
}

void LogStore::erase_model(std::uint32_t model) {
  change([this] { keep_last_place(); });
  Statement statement(database_, "SELECT place, length(body) FROM log WHERE model = ?1");
  erase(sizes(statement.bind(1, model)));
}

std::vector<LogStore::Erasure> LogStore::erasures() {
  Statement statement(database_, "SELECT model, user, until FROM erasures");
  std::vector<Erasure> all;
  while (statement.next()) {
    all.push_back({static_cast<std::uint32_t>(statement.number(0)), whole(statement.number(1)),
                   whole(statement.number(2))});
  }
  return all;
}

void LogStore::add_erasure(const Erasure& erasure) {
  Statement(database_, "INSERT INTO erasures VALUES(?1, ?2, ?3)")
      .bind(1, erasure.model)
      .bind(2, plain(erasure.user))
      .bind(3, plain(erasure.until))
      .finish();
}

void LogStore::erase_user(const Erasure& erasure) {
  change([&] {
    Statement(database_, "UPDATE models SET whole = 0 WHERE id = ?1")
        .bind(1, erasure.model)
        .finish();
  });
  Statement statement(database_,
                      "SELECT place, length(body) FROM log WHERE model = ?2 AND place <= ?1 "
                      "AND user = ?3");
  statement.bind(1, plain(erasure.until)).bind(2, erasure.model).bind(3, plain(erasure.user));
  erase(sizes(statement));
  if (!checkpoint(true)) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: the log beside it cannot be emptied: somebody reads it", name()));
  }
  // Only now: whoever is cut short before this begins again at the next start.
  change([&] {
    Statement(database_, "DELETE FROM erasures WHERE model = ?1 AND user = ?2 AND until <= ?3")
        .bind(1, erasure.model)
        .bind(2, plain(erasure.user))
        .bind(3, plain(erasure.until))
        .finish();
  });
}

void LogStore::probe() {
  // As much as a large batch takes: a disk with room for a few bytes more is full.
  change([this] { database_.run("UPDATE probe SET bytes = randomblob(131072)"); });
}

}  // namespace mcnb
