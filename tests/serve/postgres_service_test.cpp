// The real service on a PostgreSQL store: it is killed, its database is killed, and it moves.

#include <gtest/gtest.h>

#include "mcnb/serve/engine/model_host.h"
#include "tests/sanitizers.h"
#include "tests/serve/service_load.h"
#include "tests/storage/postgres_server.h"

namespace mcnb::postgres_service_test {
namespace {

using namespace service_load;
using cases::PostgresServer;

const int kKills = kSanitized ? repeats(2, 6) : repeats(6, 200);
const int kServerKills = kSanitized ? repeats(1, 4) : repeats(3, 60);
constexpr int kClients = 3;

// A service on its own store, with a short lease so that a restart waits less.
class PostgresService : public testing::Test {
 protected:
  void use(const std::string& url) {
    const ProgramOutcome made = run_program({"serve", "--migrate", "--store", url});
    ASSERT_EQ(made.status, 0) << made.errors;
    EXPECT_NE(made.output.find("were made"), std::string::npos) << made.output;
    store = url;
    put_file(folder / "config.toml", kSmallModel);
  }
  ServerProgram start() const {
    return ServerProgram(folder / "data", {"--store", store, "--lease-seconds", "1", "--config",
                                           (folder / "config.toml").string(), "--threads", "1"});
  }
  std::vector<std::thread> clients(std::uint16_t port, int life, bool may_fail) {
    std::vector<std::thread> all;
    for (int client = 0; client < kClients; ++client) {
      all.emplace_back([this, port, life, client, may_fail] {
        use_service(port, life, client, told, may_fail);
      });
    }
    return all;
  }
  void expect_all_kept() {
    expect_kept(told, logged, store);
    for (const auto& [event, count] : logged.rewards) {
      EXPECT_EQ(count, 1) << event;
    }
    expect_verified(store);
  }

  TemporaryFolder folder;
  std::string store;
  Told told;
  Logged logged;
};

TEST_F(PostgresService, NothingAcknowledgedIsLostWhenTheServiceIsKilled) {
  use(PostgresServer::shared().new_database());
  Rng rng(test_seed() + 61, Stream::kTest);
  for (int life = 0; life < kKills; ++life) {
    ServerProgram server = start();
    std::vector<std::thread> load = clients(server.port(), life, false);
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + rng.below(200'000)));
    server.kill();
    for (std::thread& client : load) {
      client.join();
    }
    server.wait();
  }
  EXPECT_GT(told.decisions.size(), static_cast<std::size_t>(kKills));
  expect_all_kept();
}

// The database crashes and comes back while the service runs on.
TEST_F(PostgresService, NothingAcknowledgedIsLostWhenTheDatabaseIsKilled) {
  PostgresServer database;
  use(database.new_database());
  ServerProgram server = start();
  const std::uint16_t port = server.port();
  std::vector<std::thread> load = clients(port, 0, true);
  Rng rng(test_seed() + 62, Stream::kTest);
  std::size_t before = 0;
  const auto decisions = [&] {
    const std::lock_guard lock(told.mutex);
    return told.decisions.size();
  };
  for (int kill = 0; kill < kServerKills; ++kill) {
    while (decisions() < before + 20) {  // it serves again
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(50'000)));
    database.stop(SIGQUIT);
    database.start();
    before = decisions();
  }
  while (decisions() < before + 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  server.kill();
  for (std::thread& client : load) {
    client.join();
  }
  server.wait();
  expect_all_kept();
}

TEST_F(PostgresService, AServiceMovesToPostgresAndBack) {
  use(PostgresServer::shared().new_database());
  const std::string rank =
      R"({"eventId":"e","userId":"u","actions":[{"id":"a","features":[1,0,0,0]}]})";
  HttpReply first;
  {
    ServerProgram server(folder / "old", {"--config", (folder / "config.toml").string()});
    first = HttpClient(server.port()).post("/v1/models/small/rank", rank);
    ASSERT_EQ(first.status, 200) << first.body;
    ASSERT_EQ(server.stop().status, 0);
  }
  const auto copy = [](const std::string& from, const std::string& to) {
    const ProgramOutcome copied = run_program({"serve", "--copy", from, to});
    EXPECT_EQ(copied.status, 0) << copied.errors;
    EXPECT_NE(copied.output.find("the same bit for bit"), std::string::npos) << copied.output;
  };
  copy(folder / "old", store);
  {
    ServerProgram server = start();
    HttpClient http(server.port());
    EXPECT_EQ(http.post("/v1/models/small/rank", rank).body, first.body);
    EXPECT_EQ(http.post("/v1/models/small/events/e/reward", R"({"value":1})").status, 200);
    EXPECT_EQ(http.post("/v1/backup", R"({"name":"monday"})").status, 201);
    EXPECT_EQ(http.send("PATCH", "/v1/models/small", R"({"waitingSeconds":0.001})").status, 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(http.post("/v1/models/small/rank", R"({"userId":"u","actions":[{"id":"a"}]})").status,
              200);
    ASSERT_EQ(server.stop().status, 0);
  }
  EXPECT_TRUE(fs::exists(folder / "data" / "backups" / "monday" / "mcnb.db"));
  copy(store, folder / "new");
  expect_verified(folder / "new");
  const auto log = [](const std::string& from) {
    return run_program({"log", "export", from, "--model", "small", "--format", "jsonl"}).output;
  };
  EXPECT_NE(log(store).find(R"("event":"e","user":"u")"), std::string::npos) << log(store);
  EXPECT_NE(log(store).find(R"("reward":1)"), std::string::npos) << log(store);
  EXPECT_EQ(log(store), log(folder / "new"));
  ServerProgram server(folder / "new", {"--config", (folder / "config.toml").string()});
  HttpClient http(server.port());
  EXPECT_EQ(http.post("/v1/models/small/rank", rank).body, first.body);
  const HttpReply event = http.get("/v1/models/small/events/e");
  EXPECT_NE(event.body.find("\"waiting\":false"), std::string::npos) << event.body;
}

TEST_F(PostgresService, BadStoresAreRefusedByName) {
  const auto refusal = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "serve");
    const ProgramOutcome outcome = run_program(std::move(arguments));
    EXPECT_EQ(outcome.output, "");
    return std::to_string(outcome.status) + outcome.errors;
  };
  const std::string empty = PostgresServer::shared().new_database();
  EXPECT_NE(refusal({"--store", empty, "--port", "0"}).find("--migrate"), std::string::npos);
  EXPECT_NE(refusal({"--store", "a-folder"}).find("option store: expected a URL"),
            std::string::npos);
  EXPECT_EQ(refusal({"--store", "a-folder"})[0], '2');
  EXPECT_EQ(refusal({"--migrate", "--data", folder / "x"})[0], '2');
  const std::string nobody = refusal({"--store", "postgresql://u:secret@127.0.0.1:1/d"});
  EXPECT_EQ(nobody[0], '1');
  EXPECT_NE(nobody.find("cannot connect"), std::string::npos) << nobody;
  EXPECT_EQ(nobody.find("secret"), std::string::npos) << nobody;
}

}  // namespace
}  // namespace mcnb::postgres_service_test
