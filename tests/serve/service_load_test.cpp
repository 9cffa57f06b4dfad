// The real `mcnb serve` with models that are too large, or take long to make.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/serve/server_program.h"

namespace mcnb::service_load_test {
namespace {

using nlohmann::json;

const std::string kRank = R"({"userId":"u","actions":[{"id":"a","features":{"x":1}},{"id":"b"}]})";

std::string error_of(const HttpReply& reply, const char* member) {
  return json::parse(reply.body).at("error").at(member).get<std::string>();
}

// A network of twenty million parameters.
std::string wide_model(const std::string& name) {
  return R"({"name":")" + name +
         R"(","dimension":1024,"policy":"mcnb","options":{"width":4096,"depth":3}})";
}

// True once a program blocks SIGTERM, to wait for it itself. The thread that waits seems to block
// nothing while it does, so that all threads are asked.
bool waits_for_signals(pid_t process) {
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:") &&
          (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0) {
        return true;
      }
    }
  }
  return false;
}

TEST(ServiceLoad, AModelThatIsTooLargeIsRefusedAtOnceWithItsEstimate) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data", {"--memory-gigabytes", "0.5"});
  HttpClient http(server.port());
  const HttpReply giant = http.post(
      "/v1/models",
      R"({"name":"giant","dimension":4096,"policy":"mcnb","options":{"width":16384,"depth":4}})");
  EXPECT_EQ(giant.status, 400);
  EXPECT_EQ(error_of(giant, "code"), "bad_option");
  EXPECT_NE(error_of(giant, "message").find("500.0 MB"), std::string::npos) << giant.body;
  EXPECT_EQ(http.post("/v1/models/default/rank", kRank).status, 200);
  EXPECT_EQ(http.get("/v1/models/giant").status, 404);
  // Those that fit do so until the memory is full.
  int made = 0;
  HttpReply last;
  for (int i = 0; i < 20; ++i) {
    last = http.post("/v1/models", R"({"name":"hybrid-)" + std::to_string(i) +
                                       R"(","dimension":4095,"policy":"linucb",)"
                                       R"("options":{"users":"hybrid"}})");
    made += last.status == 201 ? 1 : 0;
    if (last.status != 201) {
      break;
    }
  }
  EXPECT_GE(made, 1);
  EXPECT_EQ(last.status, 507) << last.body;
  EXPECT_TRUE(last.head.starts_with("HTTP/1.1 507 Insufficient Storage\r\n")) << last.head;
  EXPECT_EQ(error_of(last, "code"), "memory_full");
  EXPECT_EQ(http.post("/v1/models/default/rank", kRank).status, 200);
}

TEST(ServiceLoad, AModelThatIsBeingMadeKeepsNobodyWaiting) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  const std::uint16_t port = server.port();
  HttpClient http(port);
  std::atomic<bool> made{false};
  int status = 0;
  std::thread creator([&] {
    HttpClient other(port);
    status = other.post("/v1/models", wide_model("wide")).status;
    made = true;
  });
  int beside = 0;
  while (!made) {
    EXPECT_EQ(http.post("/v1/models/default/rank", kRank).status, 200);
    beside += made ? 0 : 1;
  }
  creator.join();
  EXPECT_EQ(status, 201);
  EXPECT_GE(beside, 3);
  const ProgramOutcome outcome = server.stop();
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  // A start that has to make it again can be ended. (On a busy machine it may be over by then.)
  ServerProgram again(folder / "data");
  while (!waits_for_signals(again.program().id())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const ProgramOutcome ended = again.stop();
  EXPECT_EQ(ended.status, 0);
  EXPECT_TRUE(ended.errors.find("stopping while starting") != std::string::npos ||
              ended.errors.find("\"stopped\"") != std::string::npos)
      << ended.errors;
  ServerProgram whole(folder / "data");
  HttpClient after(whole.port());
  EXPECT_EQ(after.get("/v1/models/wide").status, 200);
}

}  // namespace
}  // namespace mcnb::service_load_test
