// The log of a model over HTTP: what `mcnb log export` writes, while it is read.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/store_log.h"
#include "tests/evaluate/log_cases.h"
#include "tests/serve/raw_connection.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/server_program.h"

namespace mcnb::log_stream_test {
namespace {

constexpr std::int64_t kStart = 1'000'000;  // milliseconds
constexpr std::size_t kRounds = 4000;

// A data folder with more decisions than the service keeps ready for a client.
void fill(const TemporaryFolder& folder) {
  cases::RunningEngine running(folder / "data", {}, kStart);
  ModelOptions options = cases::small_model();
  options.waiting_seconds = 10.0;
  running.create("m", options);
  for (std::size_t i = 0; i < kRounds; i += 500) {
    std::vector<Task> tasks;
    for (std::size_t k = i; k < i + 500; ++k) {
      tasks.push_back(cases::rank_task(cases::request_of(k, "user-" + std::to_string(k % 3))));
    }
    running.run_together(tasks);
  }
  for (std::size_t i = 0; i < kRounds; i += 40) {
    running.reward(cases::request_of(i, "").event_id, 0.5F);
  }
  running.clock.set(kStart + 20'000);
  running.rank(cases::request_of(9000, "user-0"));
}

std::string expected_log(const TemporaryFolder& folder, LogFormat format) {
  std::vector<LoggedRound> rounds;
  read_store_log(folder / "data", {}, [&](const LoggedRound& round) { rounds.push_back(round); });
  return cases::written(format, rounds);
}

// Everything that the service sends until it closes the connection.
std::string answer_of(std::uint16_t port, const std::string& query,
                      const std::string& version = "1.1", const std::string& key = "") {
  RawConnection connection(port);
  connection.send("GET /v1/models/" + query + " HTTP/" + version + "\r\nHost: localhost\r\n" +
                  (key.empty() ? "" : "X-API-Key: " + key + "\r\n") + "Connection: close\r\n\r\n");
  return connection.receive(60.0);
}

std::string body_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

// The body without the sizes of its chunks, of which the last one must be there.
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
  throw std::runtime_error("the last chunk is missing");
}

TEST(LogStream, SendsWhatTheExportWrites) {
  const TemporaryFolder folder;
  fill(folder);
  ServerProgram server(folder / "data");
  const std::uint16_t port = server.port();
  cases::wait_until([&] {  // the clock has gone on, and ends the last waiting time
    return read_store_log(folder / "data", {}, [](const LoggedRound&) {}).rounds == kRounds + 1;
  });
  for (const auto& [query, format] :
       std::vector<std::pair<std::string, LogFormat>>{{"m/log", LogFormat::kDsjson},
                                                      {"m/log?format=jsonl", LogFormat::kJsonLines},
                                                      {"m/log?format=csv", LogFormat::kCsv}}) {
    const std::string expected = expected_log(folder, format);
    EXPECT_GT(expected.size(), std::size_t{300} << 10);
    const std::string answer = answer_of(port, query);
    EXPECT_EQ(status_in(answer), 200);
    EXPECT_TRUE(joined(body_of(answer)) == expected) << query;
  }
  EXPECT_TRUE(body_of(answer_of(port, "m/log", "1.0")) == expected_log(folder, LogFormat::kDsjson));
  EXPECT_EQ(joined(body_of(answer_of(port, "m/log?to=1970-01-01T00:16:40Z"))), "");
  EXPECT_EQ(status_in(answer_of(port, "x/log")), 404);
  for (const char* bad :
       {"m/log?format=xml", "m/log?from=yesterday", "m/log?x=1", "m/log?to=%zz"}) {
    EXPECT_EQ(status_in(answer_of(port, bad)), 400) << bad;
  }
  EXPECT_EQ(server.stop().status, 0);
}

TEST(LogStream, IsForKeysThatRead) {
  const TemporaryFolder folder;
  fill(folder);
  std::string lines;
  for (const std::string role : {"decide", "read"}) {
    lines += "[[keys]]\nname = \"" + role + "\"\nrole = \"" + role + "\"\nsha256 = \"" +
             sha256_hex(role + "-secret") + "\"\n";
  }
  put_file(folder / "keys.toml", lines);
  ServerProgram server(folder / "data", {"--config", (folder / "keys.toml").string()});
  EXPECT_EQ(status_in(answer_of(server.port(), "m/log")), 401);
  EXPECT_EQ(status_in(answer_of(server.port(), "m/log", "1.1", "decide-secret")), 403);
  EXPECT_EQ(status_in(answer_of(server.port(), "m/log", "1.1", "read-secret")), 200);
}

// Clients that go away, or do not read, keep nothing: their seats are free again, others are
// served meanwhile, and the service ends in good order.
TEST(LogStream, ClientsMayGoAwayAndMayBeSlow) {
  const TemporaryFolder folder;
  fill(folder);
  ServerProgram server(folder / "data");
  const std::uint16_t port = server.port();
  const std::string request = "GET /v1/models/m/log HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 10; ++i) {
    RawConnection connection(port);
    connection.send(request);
    const std::string begin = connection.receive(20.0, "\r\n\r\n");
    EXPECT_TRUE(status_in(begin) == 200 || status_in(begin) == 503) << begin;
  }
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int i = 0; i < 6; ++i) {
    slow.push_back(std::make_unique<RawConnection>(port));
    slow.back()->send(request);
  }
  HttpClient other(port);
  EXPECT_EQ(other.get("/livez").status, 200);
  slow.clear();
  cases::wait_until([&] { return status_in(answer_of(port, "m/log?format=csv")) == 200; });
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace mcnb::log_stream_test
