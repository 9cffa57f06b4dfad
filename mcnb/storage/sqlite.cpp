#include "mcnb/storage/sqlite.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <vector>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr int kPatienceMilliseconds = 20'000;

int open_flags(Database::Access access) {
  switch (access) {
    case Database::Access::kUntouched:
    case Database::Access::kReadOnly:
      return SQLITE_OPEN_READONLY;
    case Database::Access::kReadWrite:
      return SQLITE_OPEN_READWRITE;
    case Database::Access::kCreate:
      return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  }
  return 0;
}

// The URI of a file that nobody changes.
std::string untouched(const std::string& name) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(name).string()) {
    uri += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02X}", c) : std::string(1, c);
  }
  return uri + "?immutable=1";
}

constexpr std::size_t kFileHeader = 100;  // bytes at the beginning of page 1

// A part of a page.
struct Gap {
  std::size_t begin = 0;
  std::size_t size = 0;
};

// What lies between the list of a leaf's cells and the cells, which SQLite does not use
// (https://www.sqlite.org/fileformat2.html, "B-tree Pages"). Empty for every other kind of page.
Gap gap_of(const std::vector<unsigned char>& page, std::size_t header) {
  constexpr unsigned char kIndexLeaf = 10;
  constexpr unsigned char kTableLeaf = 13;
  constexpr std::size_t kLeafHeader = 8;
  if (page[header] != kIndexLeaf && page[header] != kTableLeaf) {
    return {};
  }
  const auto number_at = [&](std::size_t at) {
    return std::size_t{page[header + at]} << 8U | page[header + at + 1];
  };
  const std::size_t begin = header + kLeafHeader + 2 * number_at(3);
  const std::size_t cells = number_at(5);
  return begin < cells && cells <= page.size() ? Gap{begin, cells - begin} : Gap{};
}

}  // namespace

Database::Database(const std::filesystem::path& path, Access access) : name_(path.string()) {
  const bool is_still = access == Access::kUntouched && !std::filesystem::exists(name_ + "-wal") &&
                        !std::filesystem::exists(name_ + "-journal");
  const int code = ::sqlite3_open_v2(
      is_still ? untouched(name_).c_str() : name_.c_str(), &handle_,
      open_flags(access) | SQLITE_OPEN_NOMUTEX | (is_still ? SQLITE_OPEN_URI : 0), nullptr);
  if (code != SQLITE_OK) {
    const std::string text = ::sqlite3_errstr(code);
    ::sqlite3_close(handle_);
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot open: {}", name_, text));
  }
  ::sqlite3_extended_result_codes(handle_, 1);
  ::sqlite3_busy_timeout(handle_, kPatienceMilliseconds);
  ::sqlite3_wal_hook(
      handle_,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Database*>(self)->wal_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

Database::~Database() { ::sqlite3_close(handle_); }

void Database::fail(int code) const {
  const int plain = code & 0xff;
  const bool damaged = plain == SQLITE_CORRUPT || plain == SQLITE_NOTADB;
  const std::string detail = ::sqlite3_errmsg(handle_);
  throw Error(damaged ? ErrorKind::kCorrupt : ErrorKind::kSystem,
              fmt::format("{}: {} (SQLite code {})", name_, detail, code));
}

void Database::run(const char* sql) {
  expect(::sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr), SQLITE_OK);
}

std::int64_t Database::number(const char* sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.number(0) : 0;
}

void Database::use_wal() {
  constexpr int kPause = 5;  // milliseconds
  int code = SQLITE_BUSY;
  for (int waited = 0; (code & 0xff) == SQLITE_BUSY && waited < kPatienceMilliseconds;
       waited += kPause) {
    if (waited > 0) {
      ::sqlite3_sleep(kPause);
    }
    code = ::sqlite3_exec(handle_, "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr);
  }
  expect(code, SQLITE_OK);
}

bool Database::checkpoint(bool truncate) {
  const int code = ::sqlite3_wal_checkpoint_v2(
      handle_, nullptr, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, nullptr,
      nullptr);
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY && (code & 0xff) != SQLITE_LOCKED) {
    fail(code);
  }
  return code == SQLITE_OK;
}

void Database::clear_unused(std::int64_t first_page, std::int64_t pages) {
  // The file as SQLite has it open: to open and close it again would drop SQLite's locks.
  sqlite3_file* file = nullptr;
  expect(::sqlite3_file_control(handle_, "main", SQLITE_FCNTL_FILE_POINTER, &file), SQLITE_OK);
  const auto size = static_cast<std::size_t>(number("PRAGMA page_size"));
  const std::int64_t end = std::min(first_page + pages, number("PRAGMA page_count") + 1);
  std::vector<unsigned char> page(size);
  const std::vector<unsigned char> zeros(size);
  bool changed = false;
  for (std::int64_t number = first_page; number < end; ++number) {
    const std::int64_t offset = (number - 1) * static_cast<std::int64_t>(size);
    expect(file->pMethods->xRead(file, page.data(), static_cast<int>(size), offset), SQLITE_OK);
    const Gap gap = gap_of(page, number == 1 ? kFileHeader : 0);
    const auto begin = page.begin() + static_cast<std::ptrdiff_t>(gap.begin);
    if (std::any_of(begin, begin + static_cast<std::ptrdiff_t>(gap.size),
                    [](unsigned char byte) { return byte != 0; })) {
      expect(file->pMethods->xWrite(file, zeros.data(), static_cast<int>(gap.size),
                                    offset + static_cast<std::int64_t>(gap.begin)),
             SQLITE_OK);
      changed = true;
    }
  }
  if (changed) {
    expect(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), SQLITE_OK);
  }
}

void Database::drop_pages() { ::sqlite3_db_release_memory(handle_); }

void Database::copy_to(const std::filesystem::path& path) {
  Statement statement(*this, "VACUUM INTO ?1");
  const std::string name = path.string();
  statement.bind(1, std::string_view(name)).finish();
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
  database.expect(::sqlite3_prepare_v3(database.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                       &statement_, nullptr),
                  SQLITE_OK);
}

Statement::~Statement() { ::sqlite3_finalize(statement_); }

Statement& Statement::bind(int parameter, std::int64_t value) {
  database_.expect(::sqlite3_bind_int64(statement_, parameter, value), SQLITE_OK);
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  database_.expect(::sqlite3_bind_text(statement_, parameter, text.data(),
                                       static_cast<int>(text.size()), SQLITE_STATIC),
                   SQLITE_OK);
  return *this;
}

Statement& Statement::bind_bytes(int parameter, std::string_view bytes) {
  database_.expect(::sqlite3_bind_blob(statement_, parameter, bytes.data(),
                                       static_cast<int>(bytes.size()), SQLITE_STATIC),
                   SQLITE_OK);
  return *this;
}

bool Statement::next() {
  const int code = ::sqlite3_step(statement_);
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code != SQLITE_DONE) {
    ::sqlite3_reset(statement_);
    database_.fail(code);
  }
  database_.expect(::sqlite3_reset(statement_), SQLITE_OK);
  return false;
}

void Statement::reset() noexcept { ::sqlite3_reset(statement_); }

void Statement::finish() {
  while (next()) {
  }
}

std::int64_t Statement::number(int column) const {
  return ::sqlite3_column_int64(statement_, column);
}

std::string_view Statement::bytes(int column) const {
  const void* data = ::sqlite3_column_blob(statement_, column);
  const int size = ::sqlite3_column_bytes(statement_, column);
  return data == nullptr
             ? std::string_view()
             : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

}  // namespace mcnb
