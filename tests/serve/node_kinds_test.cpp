// Nodes of different kinds (version of the algorithms, class of the processor) on one PostgreSQL
// store: none replays the rows of another kind.

#include <gtest/gtest.h>

#include "mcnb/numeric/kernels.h"
#include "mcnb/serve/model/computing_kind.h"
#include "mcnb/serve/store/postgres/schema.h"
#include "tests/serve/service_load.h"
#include "tests/storage/postgres_server.h"

namespace mcnb::node_kinds_test {
namespace {

using namespace service_load;
using namespace std::chrono_literals;
using cases::PostgresServer;

// The instruction set of the nodes of the other kind.
std::string other_set() { return kernels::simd_target() == "plain" ? "sse4" : "plain"; }

// Nodes on a store of their own.
class NodeKinds : public testing::Test {
 protected:
  NodeKinds() {
    migrate_postgres(store);
    put_file(folder / "config.toml", kSmallModel);
  }
  std::unique_ptr<ServerProgram> start(bool other) const {
    const std::vector<std::string> variables =
        other ? std::vector<std::string>{"MCNB_SIMD=" + other_set()} : std::vector<std::string>{};
    return std::make_unique<ServerProgram>(
        folder / (other ? "other" : "data"),
        std::vector<std::string>{"--store", store, "--node", other ? "other" : "one",
                                 "--lease-seconds", "1", "--config",
                                 (folder / "config.toml").string(), "--threads", "1"},
        served_binary(), variables);
  }
  // Waits until the node serves and makes some decisions there.
  void decide(ServerProgram& node, int count) {
    HttpClient http(node.port());
    for (int i = 0; i < count;) {
      const std::string event = "event-" + std::to_string(decided);
      const HttpReply reply =
          http.post("/v1/models/small/rank", rank_request(event, "u", rng).dump());
      if (reply.status == 503) {
        std::this_thread::sleep_for(10ms);
        continue;
      }
      ASSERT_EQ(reply.status, 200) << reply.body;
      const HttpReply reward =
          http.post("/v1/models/small/events/" + event + "/reward", R"({"value": 1})");
      ASSERT_EQ(reward.status, 200) << reward.body;
      ++decided;
      ++i;
    }
    // What a node says about its models is up to a second old.
    json report = json::object();
    for (int i = 0; i < 300 && report.value("rounds", 0) != decided; ++i) {
      report = json::parse(http.get("/v1/models/small").body);
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(report.value("rounds", 0), decided) << report;
  }
  // Waits until the node refuses to serve, for this reason.
  void expect_refusal(ServerProgram& node, const std::string& part) const {
    HttpClient http(node.port());
    std::string said;
    for (int i = 0; i < 1000 && said.find(part) == std::string::npos; ++i) {
      said = http.get("/readyz").body;  // at first, that the dead node still has its lease
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  std::string noted(const char* column) const {
    return PostgresConnection(store)
        .run(std::string("SELECT ") + column + "::text FROM mcnb.models")
        .text(0, 0);
  }
  // What `mcnb serve --verify` says on a processor of this kind.
  ProgramOutcome verify(bool other) const {
    return run_program(
        {"serve", "--verify", "--store", store},
        other ? std::vector<std::string>{"MCNB_SIMD=" + other_set()} : std::vector<std::string>{});
  }

  const std::string store = PostgresServer::shared().new_database();
  TemporaryFolder folder;
  Rng rng{test_seed() + 91, Stream::kTest};
  int decided = 0;
};

TEST_F(NodeKinds, TakeOverFromASnapshotAndNeverReplayEachOther) {
  std::unique_ptr<ServerProgram> one = start(false);
  decide(*one, 20);
  EXPECT_EQ(noted("computed_by"), computing_kind());
  EXPECT_EQ(noted("computed_from"), "0");

  // After a crash only a node of the same kind can go on.
  one->kill();
  one->wait();
  std::unique_ptr<ServerProgram> other = start(true);
  expect_refusal(*other, "start a node of kind \\\"" + computing_kind());
  one = start(false);
  decide(*one, 5);

  // In good order, the state is handed over.
  EXPECT_EQ(one->stop().status, 0);
  decide(*other, 10);
  EXPECT_EQ(noted("computed_by"), "1 " + other_set());
  EXPECT_NE(noted("computed_from"), "0");

  // And now the other way round.
  other->kill();
  other->wait();
  one = start(false);
  expect_refusal(*one, "start a node of kind \\\"1 " + other_set());
  other = start(true);
  decide(*other, 10);
  EXPECT_EQ(other->stop().status, 0);
  decide(*one, 10);
  EXPECT_EQ(one->stop().status, 0);

  const ProgramOutcome verified = verify(false);
  EXPECT_EQ(verified.status, 0) << verified.output << verified.errors;
  EXPECT_NE(verified.output.find("give the same state"), std::string::npos) << verified.output;
}

TEST_F(NodeKinds, VerifyOnlyWhatTheirKindMade) {
  std::unique_ptr<ServerProgram> one = start(false);
  decide(*one, 20);
  one->kill();
  one->wait();
  EXPECT_EQ(verify(false).status, 0);
  const ProgramOutcome refused = verify(true);
  EXPECT_EQ(refused.status, 1) << refused.output;
  EXPECT_NE(refused.errors.find("start a node of kind"), std::string::npos) << refused.errors;
}

// An old snapshot of the other kind must not be gone back to.
TEST_F(NodeKinds, DoNotGoBackBehindTheHandOver) {
  std::unique_ptr<ServerProgram> one = start(false);
  decide(*one, 10);
  EXPECT_EQ(one->stop().status, 0);
  one = start(false);
  decide(*one, 10);
  EXPECT_EQ(one->stop().status, 0);  // two snapshots
  std::unique_ptr<ServerProgram> other = start(true);
  decide(*other, 10);
  other->kill();
  other->wait();
  PostgresConnection(store).run(
      "UPDATE mcnb.snapshot_pieces SET body = 'x' WHERE snapshot = (SELECT max(id) FROM "
      "mcnb.snapshots)");
  other = start(true);
  expect_refusal(*other, "another kind of node made the rows before");
}

TEST(NodeKindsOfOldTables, TablesOfTheFirstLayoutAreMigratedAndTakenAsTheyAre) {
  const std::string url = PostgresServer::shared().new_database();
  EXPECT_EQ(migrate_postgres(url), Migrated::kMade);
  EXPECT_EQ(migrate_postgres(url), Migrated::kNothing);
  PostgresConnection connection(url);
  connection.run("ALTER TABLE mcnb.models DROP COLUMN computed_by, DROP COLUMN computed_from");
  connection.run("UPDATE mcnb.service SET layout = 1");
  connection.run("INSERT INTO mcnb.models VALUES(1, 'm', '', true, 0, 0)");
  try {
    open_postgres(url, StorageAccess::kLook);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("--migrate"), std::string::npos) << error.what();
  }
  const ProgramOutcome migrated = run_program({"serve", "--migrate", "--store", url});
  EXPECT_EQ(migrated.status, 0) << migrated.errors;
  EXPECT_NE(migrated.output.find("brought to layout 2"), std::string::npos) << migrated.output;
  check_postgres_schema(connection);
  const PostgresRows rows = connection.run("SELECT computed_by, computed_from FROM mcnb.models");
  EXPECT_EQ(rows.text(0, 0), "") << "nobody knows";
  EXPECT_EQ(rows.number(0, 1), 0);
}

}  // namespace
}  // namespace mcnb::node_kinds_test
