#include "mcnb/serve/store/postgres/log_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/model/model_options.h"
#include "mcnb/serve/store/log_checksums.h"
#include "mcnb/serve/store/log_tables.h"
#include "mcnb/serve/store/postgres/log_rows.h"

namespace mcnb {
namespace {

using namespace std::chrono_literals;

// For which a commit in doubt is looked up, and the server may be gone.
constexpr auto kSettleTime = 15s;
constexpr auto kSettlePause = 100ms;

std::uint64_t checksum_of(const StoredModel& model, std::string_view options) {
  return checksum_of_numbers({model.id, hash_bytes(options)}, model.name);
}

// Columns of numbers, for unnest.
class Columns {
 public:
  explicit Columns(std::size_t count) : columns_(count) {}
  void add(std::initializer_list<std::int64_t> row) {
    auto column = columns_.begin();
    for (const std::int64_t value : row) {
      (column++)->push_back(value);
    }
  }
  bool empty() const { return columns_.front().empty(); }
  PostgresValues values() const {
    PostgresValues values;
    for (const std::vector<std::int64_t>& column : columns_) {
      values.numbers(column);
    }
    return values;
  }

 private:
  std::vector<std::vector<std::int64_t>> columns_;
};

void send_models(PostgresConnection& connection, const Batch& batch) {
  for (const Batch::ModelChange& change : batch.models) {
    if (const auto* made = std::get_if<StoredModel>(&change)) {
      const std::string options = encode_options(made->options);
      connection.send("INSERT INTO mcnb.models VALUES($1, $2, $3, $4 <> 0, $5, $6, $7, $8)",
                      PostgresValues()
                          .number(made->id)
                          .text(made->name)
                          .bytes(options)
                          .number(made->complete ? 1 : 0)
                          .number(to_signed(made->last_position))
                          .number(to_signed(checksum_of(*made, options)))
                          .text(made->computed_by)
                          .number(to_signed(made->computed_from)));
      connection.send("UPDATE mcnb.service SET highest_model = greatest(highest_model, $1)",
                      PostgresValues().number(made->id));
    } else {
      connection.send("DELETE FROM mcnb.models WHERE id = $1",
                      PostgresValues().number(std::get<std::uint32_t>(change)));
    }
  }
}

void send_rows(PostgresConnection& connection, const Batch& batch) {
  if (batch.rows.empty()) {
    return;
  }
  struct Range {
    std::int64_t rows = 0;
    std::uint64_t digest = 0;
    std::int64_t bytes = 0;
  };
  Columns columns(6);
  std::vector<std::string_view> bodies;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Range> ranges;
  for (const LogRow& row : batch.rows) {
    const std::uint64_t checksum = checksum_of(row);
    columns.add({row.model, to_signed(row.position), static_cast<std::int64_t>(row.kind), row.time,
                 to_signed(row.user), to_signed(checksum)});
    bodies.push_back(row.body);
    Range& range = ranges[{row.model, range_of(row.position)}];
    ++range.rows;
    range.digest ^= checksum;
    range.bytes += static_cast<std::int64_t>(row.body.size() + kRowBytes);
  }
  connection.send(
      "INSERT INTO mcnb.log(model, position, kind, time, user_hash, checksum, body) SELECT * FROM "
      "unnest($1, $2, $3, $4, $5, $6, $7)",
      columns.values().all_bytes(bodies));
  Columns changes(5);
  for (const auto& [key, range] : ranges) {
    changes.add(
        {key.first, to_signed(key.second), range.rows, to_signed(range.digest), range.bytes});
  }
  connection.send(
      "INSERT INTO mcnb.ranges AS old SELECT * FROM unnest($1, $2, $3, $4, $5) ON CONFLICT (model, "
      "number) DO UPDATE SET row_count = old.row_count + excluded.row_count, digest = old.digest # "
      "excluded.digest, bytes = old.bytes + excluded.bytes",
      changes.values());
}

void send_ids(PostgresConnection& connection, const Batch& batch) {
  // The last use of an id counts.
  std::map<std::pair<std::uint32_t, std::uint64_t>, const EventId*> latest;
  for (const EventId& id : batch.ids) {
    latest[{id.model, id.key}] = &id;
  }
  if (latest.empty()) {
    return;
  }
  Columns columns(6);
  for (const auto& [key, id] : latest) {
    columns.add({id->model, to_signed(id->key), to_signed(id->position), id->time,
                 to_signed(id->user), to_signed(checksum_of(*id))});
  }
  connection.send(
      "INSERT INTO mcnb.event_ids(model, key, position, time, user_hash, checksum) SELECT * FROM "
      "unnest($1, $2, $3, $4, $5, $6) ON CONFLICT (model, key) DO UPDATE SET position = "
      "excluded.position, time = excluded.time, user_hash = excluded.user_hash, checksum = "
      "excluded.checksum",
      columns.values());
}

}  // namespace

PostgresLogStore::PostgresLogStore(const std::string& url, PostgresLease* lease)
    : name_(postgres_name(url)),
      lease_(lease),
      writer_(url, true),
      keeper_(url, true),
      reader_(url, true) {}

// The session that sees one state of the database from its first call on.
PostgresConnection& PostgresLogStore::look() {
  PostgresConnection& connection = reader_.open();
  if (!looking_) {
    connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    looking_ = true;
  }
  return connection;
}

std::int64_t PostgresLogStore::stored_batches(PostgresConnection& connection) const {
  const PostgresRows rows =
      connection.run("SELECT number FROM mcnb.batches WHERE name = 'service' AND epoch = $1",
                     PostgresValues().number(lease_->epoch()));
  return rows.empty() ? 0 : rows.number(0, 0);
}

// A standby that was promoted without having everything lacks batches that were acknowledged.
void PostgresLogStore::require_acknowledged(std::int64_t stored) const {
  if (epoch_ == lease_->epoch() && stored < batches_) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: of {} acknowledged batches the last {} are missing: the server "
                            "was replaced by one that did not have them; restore it, or restart "
                            "the service to go on without them",
                            name_, batches_, batches_ - stored));
  }
}

void PostgresLogStore::write(const Batch& batch, std::int64_t number) {
  const std::int64_t epoch = lease_->epoch();
  writer_.call(lease_->application());
  writer_.commit(epoch, [&](PostgresConnection& connection) {
    send_models(connection, batch);
    send_rows(connection, batch);
    send_ids(connection, batch);
    for (const Erasure& erasure : batch.erasures) {
      connection.send("INSERT INTO mcnb.erasures VALUES($1, $2, $3)",
                      PostgresValues()
                          .number(erasure.model)
                          .number(to_signed(erasure.user))
                          .number(to_signed(erasure.until)));
    }
    connection.send("UPDATE mcnb.batches SET epoch = $1, number = $2 WHERE name = 'service'",
                    PostgresValues().number(epoch).number(number));
  });
}

// Finds out what became of a batch. The session is a new one, and the old one has ended.
bool PostgresLogStore::settle(std::int64_t number) {
  PostgresConnection& connection = writer_.open();
  const std::int64_t stored = stored_batches(connection);
  require_acknowledged(stored);
  if (stored < number) {
    return false;
  }
  // It may be on this server alone. What is confirmed after it is on the standby together with it.
  writer_.commit(lease_->epoch(),
                 [](PostgresConnection& own) { own.send("UPDATE mcnb.probe SET bytes = ''"); });
  return true;
}

void PostgresLogStore::commit(const Batch& batch) {
  check(lease_ != nullptr, "a store that is only read gets no batches");
  const Lock lock(writer_.mutex);
  lease_->require();
  if (epoch_ != lease_->epoch()) {
    epoch_ = lease_->epoch();
    batches_ = 0;
  }
  const std::int64_t number = batches_ + 1;
  const auto deadline = std::chrono::steady_clock::now() + kSettleTime;
  for (bool in_doubt = false;;) {
    try {
      if (!in_doubt || !settle(number)) {
        in_doubt = true;
        write(batch, number);
      }
      batches_ = number;
      return;
    } catch (const PostgresError& error) {
      if (!error.lost() || std::chrono::steady_clock::now() > deadline) {
        throw;
      }
      log_warning("a commit is in doubt", {{"detail", error.what()}});
    }
    std::this_thread::sleep_for(kSettlePause);
  }
}

void PostgresLogStore::probe() {
  const Lock lock(writer_.mutex);
  lease_->take_again();
  lease_->require();
  writer_.call(lease_->application());
  const std::int64_t stored = stored_batches(writer_.open());
  require_acknowledged(stored);
  // As much as a large batch takes: a disk with room for only a few bytes counts as full.
  const std::string bytes(std::size_t{128} << 10, '\0');
  writer_.commit(lease_->epoch(), [&](PostgresConnection& connection) {
    connection.send("UPDATE mcnb.probe SET bytes = $1", PostgresValues().bytes(bytes));
  });
  epoch_ = lease_->epoch();
  batches_ = stored;
}

std::uint32_t PostgresLogStore::new_model_id() {
  const Lock lock(keeper_.mutex);
  keeper_.call(lease_->application());
  const std::vector<PostgresRows> results =
      keeper_.commit(lease_->epoch(), [](PostgresConnection& connection) {
        connection.send(
            "UPDATE mcnb.service SET given_model = greatest(given_model, highest_model) + 1 "
            "RETURNING given_model");
      });
  return static_cast<std::uint32_t>(results.front().number(0, 0));
}

void PostgresLogStore::note_kind(std::uint32_t model, const std::string& kind,
                                 std::uint64_t after) {
  const Lock lock(keeper_.mutex);
  keeper_.call(lease_->application());
  keeper_.commit(lease_->epoch(), [&](PostgresConnection& connection) {
    connection.send("UPDATE mcnb.models SET computed_by = $2, computed_from = $3 WHERE id = $1",
                    PostgresValues().number(model).text(kind).number(to_signed(after)));
  });
}

void PostgresLogStore::begin_as_copy(std::uint64_t id, std::uint32_t highest_model) {
  const Lock lock(keeper_.mutex);
  const std::vector<PostgresRows> results =
      keeper_.commit(lease_->epoch(), [&](PostgresConnection& connection) {
        connection.send(
            "UPDATE mcnb.service SET id = $1, highest_model = $2 WHERE NOT EXISTS (SELECT FROM "
            "mcnb.models) AND NOT EXISTS (SELECT FROM mcnb.log)",
            PostgresValues().number(to_signed(id)).number(highest_model));
      });
  check(results.front().changed() == 1, "nothing was committed before");
}

std::uint64_t PostgresLogStore::id() {
  return reading([](PostgresConnection& connection) {
    return to_unsigned(connection.run("SELECT id FROM mcnb.service").number(0, 0));
  });
}

std::uint32_t PostgresLogStore::highest_model_id() {
  return reading([](PostgresConnection& connection) {
    return static_cast<std::uint32_t>(
        connection.run("SELECT highest_model FROM mcnb.service").number(0, 0));
  });
}

std::vector<StoredModel> PostgresLogStore::models() {
  return reading([&](PostgresConnection& connection) {
    const PostgresRows rows = connection.run(
        "SELECT id, name, options, complete, greatest(last_position, (SELECT max(position) FROM "
        "mcnb.log WHERE model = id)), checksum, computed_by, computed_from FROM mcnb.models ORDER "
        "BY "
        "id");
    std::vector<StoredModel> models;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      StoredModel model;
      model.id = static_cast<std::uint32_t>(rows.number(i, 0));
      model.name = rows.text(i, 1);
      model.complete = rows.number(i, 3) != 0;
      model.last_position = to_unsigned(rows.number(i, 4));
      model.computed_by = rows.text(i, 6);
      model.computed_from = to_unsigned(rows.number(i, 7));
      const std::string where = fmt::format("{}: table models, row {}", name_, model.id);
      if (checksum_of(model, rows.bytes(i, 2)) != to_unsigned(rows.number(i, 5))) {
        throw Error(ErrorKind::kCorrupt, where +
                                             ": the checksum does not match: restore the "
                                             "database from a backup");
      }
      model.options = decode_options(rows.bytes(i, 2), where);
      complete_option_values(model.options);
      models.push_back(std::move(model));
    }
    return models;
  });
}

std::vector<std::uint32_t> PostgresLogStore::models_with_rows() {
  return reading([](PostgresConnection& connection) {
    // Goes from one model to the next by the index, not row by row.
    std::vector<std::uint32_t> all;
    for (std::int64_t last = -1;;) {
      const PostgresRows rows =
          connection.run("SELECT model FROM mcnb.log WHERE model > $1 ORDER BY model LIMIT 1",
                         PostgresValues().number(last));
      if (rows.empty()) {
        return all;
      }
      last = rows.number(0, 0);
      all.push_back(static_cast<std::uint32_t>(last));
    }
  });
}

std::vector<Erasure> PostgresLogStore::erasures() {
  return reading([](PostgresConnection& connection) {
    const PostgresRows rows = connection.run("SELECT model, user_hash, until FROM mcnb.erasures");
    std::vector<Erasure> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.push_back({static_cast<std::uint32_t>(rows.number(i, 0)), to_unsigned(rows.number(i, 1)),
                     to_unsigned(rows.number(i, 2))});
    }
    return all;
  });
}

std::uint64_t PostgresLogStore::last_position(std::uint32_t model) {
  return reading([&](PostgresConnection& connection) {
    const PostgresRows rows = connection.run(
        "SELECT greatest((SELECT max(position) FROM mcnb.log WHERE model = $1), (SELECT "
        "last_position FROM mcnb.models WHERE id = $1), 0)",
        PostgresValues().number(model));
    return to_unsigned(rows.number(0, 0));
  });
}

}  // namespace mcnb
