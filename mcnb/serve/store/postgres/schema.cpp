#include "mcnb/serve/store/postgres/schema.h"

#include <fmt/core.h>

#include <utility>

namespace mcnb {
namespace {

// Numbers of 64 bits are stored as signed ones. The small tables of which rows change in every
// transaction leave room in their pages, so that a change stays in its page.
constexpr const char* kSchema[] = {
    "CREATE SCHEMA mcnb",
    // One row.
    "CREATE TABLE mcnb.service(only_row boolean PRIMARY KEY CHECK (only_row), layout bigint NOT "
    "NULL, id bigint NOT NULL, highest_model bigint NOT NULL, given_model bigint NOT NULL)",
    "CREATE TABLE mcnb.models(id bigint PRIMARY KEY, name text COLLATE \"C\" NOT NULL UNIQUE, "
    "options bytea NOT NULL, complete boolean NOT NULL, last_position bigint NOT NULL, checksum "
    "bigint NOT NULL, computed_by text NOT NULL DEFAULT '', computed_from bigint NOT NULL DEFAULT "
    "0)",
    "CREATE TABLE mcnb.log(position bigint NOT NULL, time bigint NOT NULL, user_hash bigint NOT "
    "NULL, checksum bigint NOT NULL, model integer NOT NULL, kind smallint NOT NULL, body bytea "
    "NOT NULL, PRIMARY KEY(model, position))",
    "CREATE TABLE mcnb.ranges(model bigint, number bigint, row_count bigint NOT NULL, digest "
    "bigint NOT NULL, bytes bigint NOT NULL, PRIMARY KEY(model, number)) WITH (fillfactor = 50)",
    "CREATE TABLE mcnb.event_ids(key bigint NOT NULL, position bigint NOT NULL, time bigint NOT "
    "NULL, user_hash bigint NOT NULL, checksum bigint NOT NULL, model integer NOT NULL, PRIMARY "
    "KEY(model, key))",
    "CREATE INDEX event_ids_by_time ON mcnb.event_ids(time)",
    "CREATE TABLE mcnb.erasures(model bigint NOT NULL, user_hash bigint NOT NULL, until bigint NOT "
    "NULL)",
    "CREATE TABLE mcnb.snapshots(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, model bigint "
    "NOT NULL, position bigint NOT NULL, aside boolean NOT NULL, bytes bigint NOT NULL, pieces "
    "bigint NOT NULL, digest bigint NOT NULL)",
    "CREATE UNIQUE INDEX sound_snapshots ON mcnb.snapshots(model, position) WHERE NOT aside",
    "CREATE TABLE mcnb.snapshot_pieces(snapshot bigint REFERENCES mcnb.snapshots ON DELETE "
    "CASCADE, number bigint, body bytea NOT NULL, PRIMARY KEY(snapshot, number))",
    "ALTER TABLE mcnb.snapshot_pieces ALTER COLUMN body SET STORAGE EXTERNAL",
    // Who may write, and since when. Beside it: how long, and the last batch.
    "CREATE TABLE mcnb.leases(name text PRIMARY KEY, epoch bigint NOT NULL, node text NOT NULL, "
    "instance text NOT NULL) WITH (fillfactor = 50)",
    "CREATE TABLE mcnb.nodes(instance text PRIMARY KEY, name text NOT NULL, address text NOT NULL, "
    "seen timestamptz NOT NULL) WITH (fillfactor = 50)",
    "CREATE TABLE mcnb.heartbeats(name text PRIMARY KEY, epoch bigint NOT NULL, expires "
    "timestamptz NOT NULL) WITH (fillfactor = 50)",
    "CREATE TABLE mcnb.batches(name text PRIMARY KEY, epoch bigint NOT NULL, number bigint NOT "
    "NULL) WITH (fillfactor = 50)",
    "CREATE TABLE mcnb.probe(only_row boolean PRIMARY KEY CHECK (only_row), bytes bytea NOT NULL) "
    "WITH (fillfactor = 10)",
    "CREATE FUNCTION mcnb.require_lease(the_name text, the_epoch bigint) RETURNS void LANGUAGE "
    "plpgsql AS $$ BEGIN PERFORM 1 FROM mcnb.leases WHERE name = the_name AND epoch = the_epoch "
    "FOR SHARE; IF NOT FOUND THEN RAISE EXCEPTION 'another node has taken over' USING ERRCODE = "
    "'MC001'; END IF; END $$",
    "INSERT INTO mcnb.service VALUES(true, 2, ('x' || substr(md5(gen_random_uuid()::text), 1, "
    "16))::bit(64)::bigint & 9223372036854775807, 0, 0)",
    "INSERT INTO mcnb.leases VALUES('service', 0, '', '')",
    "INSERT INTO mcnb.heartbeats VALUES('service', 0, '-infinity')",
    "INSERT INTO mcnb.batches VALUES('service', 0, 0)",
    "INSERT INTO mcnb.probe VALUES(true, '')",
};

// From layout 1. Whoever uses the tables makes it wait; it gives up before others wait for it long.
constexpr const char* kToLayout2[] = {
    "SELECT set_config('lock_timeout', '5s', true)",
    "ALTER TABLE mcnb.models ADD COLUMN computed_by text NOT NULL DEFAULT '', ADD COLUMN "
    "computed_from bigint NOT NULL DEFAULT 0",
    "UPDATE mcnb.service SET layout = 2",
};

bool has_tables(PostgresConnection& connection) {
  return connection.run("SELECT to_regclass('mcnb.service') IS NOT NULL").number(0, 0) != 0;
}

std::int64_t layout_of(PostgresConnection& connection) {
  const PostgresRows rows = connection.run("SELECT layout FROM mcnb.service");
  return rows.empty() ? 0 : rows.number(0, 0);
}

}  // namespace

Migrated migrate_postgres(const std::string& url) {
  PostgresConnection connection(url);
  // Two that migrate at once: the second one waits, and then finds the tables.
  connection.run("SELECT pg_advisory_lock(5570458)");
  if (!has_tables(connection)) {
    for (const char* statement : kSchema) {
      connection.send(statement);
    }
    connection.finish();
    return Migrated::kMade;
  }
  if (layout_of(connection) == 1) {
    for (const char* statement : kToLayout2) {
      connection.send(statement);
    }
    connection.finish();
    return Migrated::kChanged;
  }
  check_postgres_schema(connection);
  return Migrated::kNothing;
}

void check_postgres_schema(PostgresConnection& connection) {
  if (!has_tables(connection)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: the database has no tables of mcnb: run `mcnb serve --migrate` "
                            "with this store once, as a user who may make a schema",
                            connection.name()));
  }
  const std::int64_t layout = layout_of(connection);
  if (layout > 0 && layout < kPostgresLayout) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: the tables have layout {}, and this version of mcnb needs layout "
                            "{}: run `mcnb serve --migrate` with this store once, as the user who "
                            "made them",
                            connection.name(), layout, kPostgresLayout));
  }
  if (layout != kPostgresLayout) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: the tables have layout {}, but this version of mcnb reads layout "
                            "{}: use the version of mcnb that wrote them",
                            connection.name(), layout, kPostgresLayout));
  }
}

std::vector<std::string> weak_settings(PostgresConnection& connection) {
  std::vector<std::string> weak;
  const PostgresRows rows = connection.run(
      "SELECT name, reset_val FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', "
      "'synchronous_commit')");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = rows.text(i, 0);
    const std::string value = rows.text(i, 1);
    if (name == "fsync" && value == "off") {
      weak.emplace_back("fsync = off: what was acknowledged may be lost when the power goes off");
    } else if (name == "full_page_writes" && value == "off") {
      weak.emplace_back("full_page_writes = off: a power cut may damage the database");
    } else if (name == "synchronous_commit" && value != "on" && value != "remote_apply") {
      weak.push_back(fmt::format(
          "synchronous_commit = {}: the service sets it to on for its own sessions", value));
    }
  }
  return weak;
}

}  // namespace mcnb
