// The owner of large models goes: the next one loads them first.

#include <gtest/gtest.h>

#include "tests/serve/service_load.h"
#include "tests/storage/postgres_server.h"

namespace mcnb::hand_over_test {
namespace {

using namespace service_load;
using cases::PostgresServer;

class HandOver : public testing::Test {
 protected:
  HandOver() {
    const ProgramOutcome made = run_program({"serve", "--migrate", "--store", store});
    EXPECT_EQ(made.status, 0) << made.errors;
    put_file(folder / "config.toml", kSmallModel);
  }
  std::unique_ptr<ServerProgram> start(const char* name, const char* megabytes) const {
    return std::make_unique<ServerProgram>(
        folder / name, std::vector<std::string>{"--store", store, "--node", name, "--config",
                                                (folder / "config.toml").string(), "--threads", "1",
                                                "--preload-megabytes", megabytes, "--origins",
                                                "https://shop.example"});
  }
  // Waits until a node knows where another one can be reached.
  static void wait_until_known(ServerProgram& node, const std::string& other) {
    HttpClient http(node.port());
    for (bool is_known = false; !is_known;) {
      const json directory = json::parse(http.get("/v1/nodes").body);
      for (const json& one : directory.at("nodes")) {
        is_known = is_known || (one.at("name") == other && one.value("address", "") != "");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::int64_t snapshots() const {
    return PostgresConnection(store).run("SELECT count(*) FROM mcnb.snapshots").number(0, 0);
  }

  const std::string store = PostgresServer::shared().new_database();
  TemporaryFolder folder;
};

// Clients ask the node that stays. Returns what the first owner and the next one logged.
TEST_F(HandOver, TheNextOwnerLoadsLargeModelsWhileTheFirstGoesOn) {
  std::unique_ptr<ServerProgram> first = start("first", "0");
  first->port();  // the owner
  std::unique_ptr<ServerProgram> next = start("next", "0");
  Told told;
  std::vector<std::thread> clients;
  std::atomic<bool> stopping{false};
  const std::uint16_t port = next->port();
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      Rng rng(test_seed(), Stream::kTest, static_cast<std::uint64_t>(client));
      HttpClient http(port);
      for (int i = 0; !stopping; ++i) {
        const std::string event = std::to_string(client) + "-" + std::to_string(i);
        const HttpReply reply =
            http.post("/v1/models/small/rank", rank_request(event, "u", rng).dump());
        if (reply.status == 404) {
          continue;  // the model is not made yet
        }
        ASSERT_EQ(reply.status, 200) << reply.body;  // none is lost or refused
        const std::lock_guard lock(told.mutex);
        told.decisions[event] = json::parse(reply.body).at("rewardActionId");
      }
    });
  }
  const auto wait_for_more = [&](std::size_t count) {
    const auto decided = [&] {
      const std::lock_guard lock(told.mutex);
      return told.decisions.size();
    };
    const std::size_t before = decided();
    while (decided() < before + count) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  wait_for_more(200);
  wait_until_known(*first, "next");
  const ProgramOutcome gone = first->stop();
  EXPECT_EQ(gone.status, 0) << gone.errors;
  EXPECT_NE(gone.errors.find("another node loads the models"), std::string::npos) << gone.errors;
  EXPECT_EQ(snapshots(), 0) << "the next owner needs none";
  wait_for_more(50);
  stopping = true;
  for (std::thread& client : clients) {
    client.join();
  }
  const ProgramOutcome ended = next->stop();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("\"ahead\":\"yes\""), std::string::npos) << ended.errors;
  EXPECT_GE(snapshots(), 1) << "nobody is left who could load ahead";
  Logged logged;
  expect_kept(told, logged, store);
  expect_verified(store);  // the snapshot of the state that was loaded ahead is that of the log
}

TEST_F(HandOver, SmallModelsAreHandedOverBySnapshots) {
  std::unique_ptr<ServerProgram> first = start("first", "100");
  first->port();
  std::unique_ptr<ServerProgram> next = start("next", "100");
  Rng rng(test_seed(), Stream::kTest, 5);
  HttpClient http(next->port());
  for (int i = 0; i < 20;) {
    const HttpReply reply =
        http.post("/v1/models/small/rank", rank_request(std::to_string(i), "u", rng).dump());
    i += reply.status == 200 ? 1 : 0;
  }
  EXPECT_EQ(first->stop().status, 0);
  EXPECT_GE(snapshots(), 1);
  EXPECT_EQ(http.get("/v1/models/small").status, 200);
  const ProgramOutcome ended = next->stop();
  EXPECT_NE(ended.errors.find("\"ahead\":\"no\""), std::string::npos) << ended.errors;
}

// Whichever node a browser asks, directly or through a load balancer.
TEST_F(HandOver, PagesOfListedOriginsMayReadForwardedAnswers) {
  std::unique_ptr<ServerProgram> first = start("first", "100");
  first->port();
  std::unique_ptr<ServerProgram> next = start("next", "100");
  for (ServerProgram* node : {first.get(), next.get()}) {
    HttpClient http(node->port());
    HttpReply reply;
    for (int i = 0; i < 1000 && reply.status != 200; ++i) {  // until the model is made
      http.send_raw(
          "GET /v1/models/small HTTP/1.1\r\nHost: localhost\r\nOrigin: "
          "https://shop.example\r\n\r\n");
      reply = http.read_reply();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_EQ(reply.status, 200) << reply.head << reply.body;
    const std::string wanted = "Access-Control-Allow-Origin: https://shop.example";
    const std::size_t at = reply.head.find(wanted);
    EXPECT_NE(at, std::string::npos) << reply.head;
    EXPECT_EQ(reply.head.find(wanted, at + 1), std::string::npos) << "once: " << reply.head;
  }
}

}  // namespace
}  // namespace mcnb::hand_over_test
