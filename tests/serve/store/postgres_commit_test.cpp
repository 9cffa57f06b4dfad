// Commits that wait for a standby which never answers: however the wait ends, they count only once
// a standby has them.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "mcnb/serve/store/postgres/schema.h"
#include "mcnb/serve/store/storage.h"
#include "tests/storage/postgres_server.h"

namespace mcnb::postgres_commit_test {
namespace {

constexpr const char* kOwner = "application_name LIKE 'mcnb owner%'";
constexpr const char* kProbe = "query LIKE '%a probe%' AND pid <> pg_backend_pid()";

// The server process that waits for the standby, once there is one other than `last`.
std::int64_t waiting_process(PostgresConnection& connection, const std::string& whose,
                             std::int64_t last) {
  for (;;) {
    const PostgresRows rows = connection.run(
        "SELECT pid::bigint FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> $1 AND " +
            whose,
        PostgresValues().number(last));
    if (!rows.empty()) {
      return rows.number(0, 0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void demand_standby(PostgresConnection& connection, const std::string& name) {
  connection.run("ALTER SYSTEM SET synchronous_standby_names = '" + name + "'");
  connection.run("SELECT pg_reload_conf()");
  const std::string wanted = "SELECT current_setting('synchronous_standby_names') = '" + name + "'";
  while (connection.run(wanted).number(0, 0) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Every process of the server reads its settings when it comes to it: waits until commits wait.
void wait_until_demanded(PostgresConnection& connection, const std::string& url) {
  std::atomic<bool> demanded{false};
  std::thread client([&] {
    PostgresConnection probe(url);
    while (!demanded) {
      probe.run("SELECT pg_logical_emit_message(true, 'a probe', '')");
    }
  });
  const std::int64_t process = waiting_process(connection, kProbe, 0);
  demanded = true;
  connection.run("SELECT pg_cancel_backend($1::bigint::integer)", PostgresValues().number(process));
  client.join();
}

// `how`: what ends the wait of the owner's session.
void expect_no_early_answer(const std::string& how) {
  cases::PostgresServer server;
  const std::string url = server.new_database();
  migrate_postgres(url);
  const auto storage = open_postgres(url, StorageAccess::kOwn);
  Batch model;
  model.models.emplace_back(StoredModel{.id = 1, .name = "m", .options = {}});
  storage->log().commit(model);
  PostgresConnection other(url);
  demand_standby(other, "nobody");
  wait_until_demanded(other, url);
  std::atomic<bool> answered{false};
  std::thread client([&] {
    Batch batch;
    batch.rows.push_back({1, 1, EventKind::kArrival, 1, 7, "row"});
    storage->log().commit(batch);
    answered = true;
  });
  std::int64_t process = waiting_process(other, kOwner, 0);
  for (int i = 0; i < 2; ++i) {
    other.run("SELECT " + how + "($1::bigint::integer)", PostgresValues().number(process));
    // The row is there for all to see, and yet nobody is told so: another session waits now.
    process = waiting_process(other, kOwner, process);
    EXPECT_EQ(other.run("SELECT count(*) FROM mcnb.log").number(0, 0), 1);
    EXPECT_FALSE(answered);
  }
  demand_standby(other, "");
  client.join();
  EXPECT_TRUE(answered);
  EXPECT_EQ(other.run("SELECT count(*) FROM mcnb.log").number(0, 0), 1);
  EXPECT_TRUE(storage->log().verify_all().empty());
}

TEST(PostgresCommits, AWaitForTheStandbyThatIsCancelledIsNoAcknowledgement) {
  expect_no_early_answer("pg_cancel_backend");
}

TEST(PostgresCommits, NorIsOneThatIsTerminated) { expect_no_early_answer("pg_terminate_backend"); }

}  // namespace
}  // namespace mcnb::postgres_commit_test
