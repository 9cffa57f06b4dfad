#include "mcnb/serve/store/log_schema.h"

#include <fmt/core.h>

#include <cctype>
#include <map>
#include <string>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/store/log_migration.h"

namespace mcnb {
namespace {

constexpr std::int64_t kApplicationId = 0x4d434e42;  // "MCNB"

constexpr const char* kFirstValues = R"(
INSERT INTO probe VALUES(x'');
PRAGMA application_id = 0x4d434e42;
)";

std::int64_t layout_of(Database& database) {
  if (database.number("PRAGMA application_id") != kApplicationId) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: not a database of mcnb serve: check the data folder", database.name()));
  }
  return database.number("PRAGMA user_version");
}

// Runs `change` and sets the present layout, all or nothing.
template <class Change>
void change_layout(Database& database, Change change) {
  database.run("BEGIN IMMEDIATE");
  try {
    change();
    database.run(fmt::format("PRAGMA user_version = {};COMMIT;", kLogLayout).c_str());
  } catch (const std::exception&) {
    try {
      database.run("ROLLBACK");
    } catch (const Error&) {
      // SQLite has rolled back by itself.
    }
    throw;
  }
}

bool is_old(std::int64_t layout) {
  return layout == kLayoutOfSharedPositions || layout == kLayoutWithoutDigests;
}

// A statement with single blanks: other blanks are no difference.
std::string plain(std::string_view sql) {
  std::string text;
  for (const char c : sql) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      text += c;
    } else if (!text.empty() && !text.ends_with(' ')) {
      text += ' ';
    }
  }
  while (text.ends_with(' ')) {
    text.pop_back();
  }
  return text;
}

// The statements that make the tables, as SQLite keeps them, by the tables' names.
std::map<std::string, std::string> expected_tables() {
  std::map<std::string, std::string> tables;
  const std::string all = std::string(kModelsTable) + kLogTable + kOtherTables;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = all.find(';', begin)) != std::string::npos; begin = end + 1) {
    const std::string sql = plain(std::string_view(all).substr(begin, end - begin));
    constexpr std::string_view kCreate = "CREATE TABLE ";
    tables[sql.substr(kCreate.size(), sql.find('(') - kCreate.size())] = sql;
  }
  return tables;
}

}  // namespace

bool needs_log_schema(Database& database) {
  return database.number("SELECT count(*) FROM sqlite_schema") == 0 || is_old(layout_of(database));
}

void prepare_log_schema(Database& database) {
  if (database.number("SELECT count(*) FROM sqlite_schema") == 0) {
    change_layout(database, [&] {
      database.run((std::string(kModelsTable) + kLogTable + kOtherTables + kFirstValues).c_str());
      write_first_facts(database);
    });
    return;
  }
  if (const std::int64_t layout = layout_of(database); is_old(layout)) {
    log_info("migrating the log", {{"database", database.name()},
                                   {"layout", std::to_string(layout)},
                                   {"detail", advice_for(layout)}});
    change_layout(database, [&] { migrate_log(database, layout); });
    log_info("migrated the log", {{"layout", std::to_string(kLogLayout)}});
  }
  check_log_schema(database);
}

void check_log_schema(Database& database) {
  const std::int64_t layout = layout_of(database);
  if (layout != kLogLayout) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: the database has layout {}, but this version of mcnb reads layout {}: {}",
                    database.name(), layout, kLogLayout,
                    is_old(layout)
                        ? "an earlier version of mcnb wrote it: start `mcnb serve` on the folder "
                          "once, which brings it to the present layout"
                        : "use the version of mcnb that wrote it"));
  }
  std::map<std::string, std::string> found;
  Statement tables(database, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  while (tables.next()) {
    found[std::string(tables.bytes(0))] = plain(tables.bytes(1));
  }
  for (const auto& [name, sql] : expected_tables()) {
    if (found[name] != sql) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: table {} is missing or not as mcnb makes it: restore the folder "
                              "from a backup",
                              database.name(), name));
    }
  }
}

}  // namespace mcnb
