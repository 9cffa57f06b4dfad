// The log of a model over HTTP: what `mcnb log export` writes, piece by piece.

#include <gtest/gtest.h>

#include "mcnb/serve/store_log.h"
#include "tests/evaluate/log_cases.h"
#include "tests/serve/raw_connection.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/server_program.h"

namespace mcnb::log_stream_test {
namespace {

constexpr std::int64_t kStart = 1'000'000;  // milliseconds

// A data folder with more decisions than the service keeps ready for a client.
void fill(const TemporaryFolder& folder) {
  cases::RunningEngine running(folder / "data", {}, kStart);
  ModelOptions options = cases::small_model();
  options.waiting_seconds = 10.0;
  running.create("m", options);
  for (std::uint64_t i = 0; i < 6000; ++i) {
    running.rank(cases::request_of(i, "user-" + std::to_string(i % 3)));
    if (i % 4 == 0) {
      running.reward("event-" + std::to_string(i), 0.5F);
    }
  }
  running.clock.set(kStart + 20'000);
  running.rank(cases::request_of(9000, "user-0"));
}

std::string expected_log(const TemporaryFolder& folder, LogFormat format) {
  std::vector<LoggedRound> rounds;
  read_store_log(folder / "data", {},
                 [&](const LoggedRound& round) { rounds.push_back(round); });
  EXPECT_EQ(rounds.size(), 6000U);
  return cases::written(format, rounds);
}

// Everything that the service sends until it closes the connection.
std::string answer_of(std::uint16_t port, const std::string& query, const char* version) {
  RawConnection connection(port);
  connection.send("GET /v1/models/" + query + " HTTP/" + version +
                  "\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return connection.receive(60.0);
}

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

// The body without the sizes of its chunks; "cut" at the end if the last chunk is missing.
std::string joined(const std::string& chunks) {
  std::string body;
  std::size_t at = 0;
  while (at < chunks.size()) {
    const std::size_t size = std::stoul(chunks.substr(at), nullptr, 16);
    at = chunks.find("\r\n", at) + 2;
    if (size == 0) {
      return body;
    }
    body += chunks.substr(at, size);
    at += size + 2;
  }
  return body + "cut";
}

TEST(LogStream, SendsWhatTheExportWrites) {
  const TemporaryFolder folder;
  fill(folder);
  ServerProgram server(folder / "data");
  const std::uint16_t port = server.port();
  for (const auto& [query, format] : std::vector<std::pair<std::string, LogFormat>>{
           {"m/log", LogFormat::kDsjson},
           {"m/log?format=jsonl", LogFormat::kJsonLines},
           {"m/log?format=csv", LogFormat::kCsv}}) {
    const std::string expected = expected_log(folder, format);
    EXPECT_GT(expected.size(), std::size_t{1} << 20);
    const std::string answer = answer_of(port, query, "1.1");
    EXPECT_NE(answer.find("Transfer-Encoding: chunked"), std::string::npos);
    EXPECT_EQ(joined(body_of(answer)), expected) << query;
  }
  EXPECT_EQ(body_of(answer_of(port, "m/log", "1.0")), expected_log(folder, LogFormat::kDsjson));
  EXPECT_EQ(joined(body_of(answer_of(port, "m/log?to=1970-01-01T00:16:40Z", "1.1"))), "");
  EXPECT_EQ(status_in(answer_of(port, "x/log", "1.1")), 404);
  for (const char* bad : {"m/log?format=xml", "m/log?from=yesterday", "m/log?x=1", "m/log?to=%zz",
                          "m/log?format=csv&format=csv"}) {
    EXPECT_EQ(status_in(answer_of(port, bad, "1.1")), 400) << bad;
  }
  EXPECT_EQ(server.stop().status, 0);
}

// With keepFeatures the log has the features as they were sent, in the form of Personalizer's logs.
TEST(LogStream, HasTheFeaturesOfTheCallerWhereTheModelKeepsThem) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  HttpClient client(server.port());
  ASSERT_EQ(client.post("/v1/models", R"({"name": "m", "waitingSeconds": 0.01})").status, 201);
  const auto rank = [&](const std::string& event) {
    return client
        .post("/v1/models/m/rank",
              R"({"userId": "ann", "eventId": ")" + event +
                  R"(", "contextFeatures": [{"hour": "noon"}, {"_device": "phone"}],
                  "actions": [{"id": "tea", "features": {"hot": true, "price": 2.5}},
                              {"id": "juice", "features": [{"sweet": 1}, {"cold": true}]},
                              {"id": "water"}]})")
        .status;
  };
  EXPECT_EQ(rank("hashed"), 200);
  EXPECT_EQ(client.send("PATCH", "/v1/models/m", R"({"keepFeatures": true})").status, 200);
  EXPECT_EQ(rank("kept"), 200);
  EXPECT_EQ(rank("kept"), 200);  // the same request again
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(rank("last"), 200);
  const std::vector<LoggedRound> rounds =
      cases::rounds_in(joined(body_of(answer_of(server.port(), "m/log", "1.1"))));
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_TRUE(rounds[0].context.empty());
  EXPECT_TRUE(rounds[0].actions[0].features.starts_with("["));
  EXPECT_EQ(rounds[1].context, R"({"FromUrl":[{"hour":"noon"},{"_device":"phone"}]})");
  EXPECT_EQ(rounds[1].actions[0].features, R"({"hot":true,"price":2.5})");
  EXPECT_EQ(rounds[1].actions[1].features, R"({"j":[{"sweet":1},{"cold":true}]})");
  EXPECT_EQ(rounds[1].actions[2].features, "");
  EXPECT_EQ(server.stop().status, 0);
}

// Clients that go away, or do not read, keep nothing: the places are free again, and the service
// ends in good order.
TEST(LogStream, ClientsMayGoAwayAndMayBeSlow) {
  const TemporaryFolder folder;
  fill(folder);
  ServerProgram server(folder / "data");
  const std::uint16_t port = server.port();
  const std::string request = "GET /v1/models/m/log HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 10; ++i) {
    RawConnection connection(port);
    connection.send(request);
    connection.receive(10.0, "Transfer-Encoding");
  }
  std::vector<std::unique_ptr<RawConnection>> slow;
  int refused = 0;
  for (int i = 0; i < 6; ++i) {
    slow.push_back(std::make_unique<RawConnection>(port));
    slow.back()->send(request);
    refused += status_in(slow.back()->receive(10.0, "\r\n\r\n")) == 503 ? 1 : 0;
  }
  EXPECT_GE(refused, 1);  // four at once; a small log may fit the buffers of the system
  HttpClient other(port);
  EXPECT_EQ(other.get("/livez").status, 200);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace mcnb::log_stream_test
