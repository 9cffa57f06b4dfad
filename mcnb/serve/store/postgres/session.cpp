#include "mcnb/serve/store/postgres/session.h"

#include <fmt/core.h>

namespace mcnb {
namespace {

constexpr double kPatienceSeconds = 10.0;

}  // namespace

PostgresConnection& PostgresSession::open() {
  if (!connection_ || connection_->lost()) {
    connection_ = nullptr;
    connection_ = std::make_unique<PostgresConnection>(
        url_, PostgresOptions{.application = application_, .patience_seconds = kPatienceSeconds});
    try {
      end_old_session();
      begin_session();
    } catch (const PostgresError&) {
      connection_->drop();
      throw;
    }
  }
  return *connection_;
}

// The old one may still wait for its standby, or hold locks. On another server it never was: there
// it can neither commit nor be found.
void PostgresSession::end_old_session() {
  if (process_ == 0) {
    return;
  }
  const PostgresRows rows = connection_->run(
      "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = $1 AND "
      "(extract(epoch FROM backend_start) * 1000000)::bigint = $2",
      PostgresValues().number(process_).number(started_));
  if (!rows.empty() && rows.number(0, 0) == 0) {
    throw PostgresError(connection_->name() + ": the lost session does not end", "", true);
  }
}

void PostgresSession::begin_session() {
  connection_->send(
      "SELECT set_config('search_path', 'mcnb, pg_catalog', false), set_config('lock_timeout', "
      "'5s', false), set_config('synchronous_commit', CASE WHEN NOT $1::bigint::integer::boolean "
      "THEN 'off' WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' "
      "ELSE 'on' END, false)",
      PostgresValues().number(synchronous_ ? 1 : 0));
  connection_->send(
      "SELECT pid::bigint, (extract(epoch FROM backend_start) * 1000000)::bigint FROM "
      "pg_stat_activity WHERE pid = pg_backend_pid()");
  const std::vector<PostgresRows> results = connection_->finish();
  process_ = results[1].number(0, 0);
  started_ = results[1].number(0, 1);
}

std::vector<PostgresRows> PostgresSession::commit(
    std::int64_t epoch, const std::function<void(PostgresConnection& connection)>& fill) {
  PostgresConnection& connection = open();
  connection.send("BEGIN");
  connection.send("SELECT mcnb.require_lease('service', $1)", PostgresValues().number(epoch));
  fill(connection);
  connection.send("COMMIT");
  std::vector<PostgresRows> results;
  try {
    results = connection.finish();
  } catch (const PostgresError& error) {
    if (!error.lost()) {
      connection.run("ROLLBACK");
    }
    throw;
  }
  refuse_warnings();
  results.erase(results.begin(), results.begin() + 2);
  results.pop_back();
  return results;
}

void PostgresSession::end_commit(std::int64_t epoch) {
  connection_->send("SELECT mcnb.require_lease('service', $1)", PostgresValues().number(epoch));
  connection_->send("COMMIT");
  connection_->finish();
  refuse_warnings();
}

void PostgresSession::refuse_warnings() {
  if (!connection_->warnings().empty()) {
    connection_->drop();
    throw PostgresError(fmt::format("{}: a commit came with a warning, so it may not be on the "
                                    "standby: {}",
                                    connection_->name(), connection_->warnings().front()),
                        "", true);
  }
}

}  // namespace mcnb
