#include "mcnb/serve/store/log_tables.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/base/option_codec.h"
#include "mcnb/serve/model/bytes.h"
#include "mcnb/serve/store/log_checksums.h"

namespace mcnb {
namespace {

[[noreturn]] void damaged(const Database& database, const std::string& what) {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: {}: restore the folder from a backup", database.name(), what));
}

std::uint64_t checksum_of_model(const StoredModel& model, std::string_view options) {
  return checksum_of_numbers(
      {model.id, model.complete ? 1U : 0U, model.last_position, hash_bytes(options)}, model.name);
}

std::uint64_t checksum_of_erasure(const Erasure& erasure) {
  return checksum_of_numbers({erasure.model, erasure.user, erasure.until});
}

std::uint64_t checksum_of_fact(std::string_view name, std::uint64_t value) {
  return checksum_of_numbers({value}, name);
}

// The sum of the checksums of a small table. A row's own checksum covers its columns.
void sum_checksums(Database& database, const char* table, const char* fact) {
  Statement rows(database, fmt::format("SELECT checksum FROM {}", table).c_str());
  std::uint64_t sum = 0;
  while (rows.next()) {
    sum += to_unsigned(rows.number(0));
  }
  write_fact(database, fact, sum);
}

void expect_sum(Database& database, std::uint64_t sum, const char* table, const char* fact) {
  if (read_fact(database, fact) != sum) {
    damaged(database, fmt::format("table {}: a row is missing or was changed", table));
  }
}

}  // namespace

ReadTransaction::~ReadTransaction() {
  try {
    database_.run("COMMIT");
  } catch (const Error&) {
    // SQLite has ended it by itself.
  }
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
  return options;
}

std::uint64_t random_number(Database& database) {
  return to_unsigned(database.number("SELECT random() & 0x7fffffffffffffff"));
}

std::uint64_t read_fact(Database& database, const char* name) {
  Statement statement(database, "SELECT value, checksum FROM facts WHERE name = ?1");
  if (!statement.bind(1, std::string_view(name)).next()) {
    damaged(database, fmt::format("table facts: there is no row \"{}\"", name));
  }
  const std::uint64_t value = to_unsigned(statement.number(0));
  if (to_unsigned(statement.number(1)) != checksum_of_fact(name, value)) {
    damaged(database, fmt::format("table facts, row \"{}\": the checksum does not match", name));
  }
  return value;
}

void write_fact(Database& database, const char* name, std::uint64_t value) {
  Statement(database, "INSERT OR REPLACE INTO facts VALUES(?1, ?2, ?3)")
      .bind(1, std::string_view(name))
      .bind(2, to_signed(value))
      .bind(3, to_signed(checksum_of_fact(name, value)))
      .finish();
}

std::vector<StoredModel> read_models(Database& database) {
  Statement statement(database,
                      "SELECT id, name, options, complete, last_position, checksum FROM models "
                      "ORDER BY id");
  std::vector<StoredModel> models;
  std::uint64_t sum = 0;
  while (statement.next()) {
    StoredModel model;
    model.id = static_cast<std::uint32_t>(statement.number(0));
    model.name = std::string(statement.bytes(1));
    const std::string where = fmt::format("table models, row {}", model.id);
    const std::string_view options = statement.bytes(2);
    model.complete = statement.number(3) != 0;
    model.last_position = to_unsigned(statement.number(4));
    const std::uint64_t checksum = checksum_of_model(model, options);
    if (checksum != to_unsigned(statement.number(5))) {
      damaged(database, where + ": the checksum does not match");
    }
    model.options = decode_options(options, fmt::format("{}: {}", database.name(), where));
    sum += checksum;
    models.push_back(std::move(model));
  }
  expect_sum(database, sum, "models", facts::kModels);
  return models;
}

void add_model(Database& database, const StoredModel& model) {
  const std::string options = encode_options(model.options);
  Statement(database, "INSERT INTO models VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
      .bind(1, model.id)
      .bind(2, std::string_view(model.name))
      .bind_bytes(3, options)
      .bind(4, model.complete ? 1 : 0)
      .bind(5, to_signed(model.last_position))
      .bind(6, to_signed(checksum_of_model(model, options)))
      .finish();
  sum_checksums(database, "models", facts::kModels);
  if (read_fact(database, facts::kHighestModel) < model.id) {
    write_fact(database, facts::kHighestModel, model.id);
  }
}

void change_model(Database& database, std::uint32_t id, bool complete,
                  std::uint64_t last_position) {
  for (StoredModel& model : read_models(database)) {
    if (model.id == id) {
      model.complete = model.complete && complete;
      model.last_position = std::max(model.last_position, last_position);
      const std::string options = encode_options(model.options);
      Statement(database,
                "UPDATE models SET complete = ?2, last_position = ?3, checksum = ?4 WHERE id = ?1")
          .bind(1, id)
          .bind(2, model.complete ? 1 : 0)
          .bind(3, to_signed(model.last_position))
          .bind(4, to_signed(checksum_of_model(model, options)))
          .finish();
      sum_checksums(database, "models", facts::kModels);
    }
  }
}

void remove_model(Database& database, std::uint32_t id) {
  Statement(database, "DELETE FROM models WHERE id = ?1").bind(1, id).finish();
  sum_checksums(database, "models", facts::kModels);
}

std::vector<Erasure> read_erasures(Database& database) {
  Statement statement(database, "SELECT model, user, until, checksum FROM erasures");
  std::vector<Erasure> all;
  std::uint64_t sum = 0;
  while (statement.next()) {
    all.push_back({static_cast<std::uint32_t>(statement.number(0)),
                   to_unsigned(statement.number(1)), to_unsigned(statement.number(2))});
    const std::uint64_t checksum = checksum_of_erasure(all.back());
    if (checksum != to_unsigned(statement.number(3))) {
      damaged(database, "table erasures: the checksum of a row does not match");
    }
    sum += checksum;
  }
  expect_sum(database, sum, "erasures", facts::kErasures);
  return all;
}

void put_erasure(Database& database, const Erasure& erasure) {
  Statement(database, "INSERT INTO erasures VALUES(?1, ?2, ?3, ?4)")
      .bind(1, erasure.model)
      .bind(2, to_signed(erasure.user))
      .bind(3, to_signed(erasure.until))
      .bind(4, to_signed(checksum_of_erasure(erasure)))
      .finish();
  sum_checksums(database, "erasures", facts::kErasures);
}

void remove_erasures(Database& database, const Erasure& erasure) {
  Statement(database, "DELETE FROM erasures WHERE model = ?1 AND user = ?2 AND until <= ?3")
      .bind(1, erasure.model)
      .bind(2, to_signed(erasure.user))
      .bind(3, to_signed(erasure.until))
      .finish();
  sum_checksums(database, "erasures", facts::kErasures);
}

std::vector<LogEnd> read_log_ends(Database& database) {
  Statement last(database, "SELECT coalesce(max(position), 0) FROM log WHERE model = ?1");
  std::vector<LogEnd> ends;
  for (const StoredModel& model : read_models(database)) {
    const std::uint64_t row = last.bind(1, model.id).next() ? to_unsigned(last.number(0)) : 0;
    last.reset();
    ends.push_back({model.id, model.name, std::max(model.last_position, row)});
  }
  return ends;
}

}  // namespace mcnb
