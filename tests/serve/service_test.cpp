// The real `mcnb serve`: keys, TLS, limits, slow and rude clients, a full disk.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/server.h"
#include "tests/serve/server_program.h"

namespace mcnb::service_test {
namespace {

using nlohmann::json;

const std::string kRank = R"({"userId":"u","actions":[{"id":"a","features":{"x":1}},{"id":"b"}]})";

std::string code_of(const HttpReply& reply) {
  return json::parse(reply.body).at("error").at("code").get<std::string>();
}

TEST(Service, StopsInGoodOrderAndStartsAgain) {
  const TemporaryFolder folder;
  std::string event;
  {
    ServerProgram server(folder / "data");
    HttpClient http(server.port());
    const HttpReply reply = http.post("/v1/models/default/rank", kRank);
    ASSERT_EQ(reply.status, 200) << reply.body;
    event = json::parse(reply.body).at("eventId");
    const ProgramOutcome outcome = server.stop();
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find("\"message\":\"stopped\""), std::string::npos);
  }
  ServerProgram server(folder / "data");
  HttpClient http(server.port());
  EXPECT_EQ(http.get("/v1/models/default/events/" + event).status, 200);
}

TEST(Service, EndsInGoodOrderAsSoonAsItSaysThatItListens) {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    ServerProgram server(folder / "data");
    server.port();
    const ProgramOutcome outcome = server.stop();
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.errors.find("\"message\":\"stopped\""), std::string::npos) << outcome.errors;
  }
}

TEST(Service, ASecondServerOnTheSameDataIsRefused) {
  const TemporaryFolder folder;
  ServerProgram first(folder / "data");
  first.port();
  ServerProgram second(folder / "data");
  const ProgramOutcome outcome = second.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("another server has this data folder"), std::string::npos);
  HttpClient http(first.port());
  EXPECT_EQ(http.get("/readyz").status, 200);
}

TEST(Service, RolesAllowWhatTheySay) {
  const TemporaryFolder folder;
  std::string config;
  for (const char* role : {"decide", "read", "admin"}) {
    config += std::string("[[keys]]\nname = \"") + role + "\"\nrole = \"" + role +
              "\"\nsha256 = \"" + sha256_hex(std::string(role) + "-secret") + "\"\n";
  }
  put_file(folder / "config.toml", config);
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  const std::uint16_t port = server.port();
  HttpClient nobody(port);
  HttpClient wrong(port, "guess");
  HttpClient decide(port, "decide-secret");
  HttpClient read(port, "read-secret");
  HttpClient admin(port, "admin-secret");
  EXPECT_EQ(nobody.get("/livez").status, 200);
  EXPECT_EQ(nobody.get("/openapi.json").status, 200);
  EXPECT_EQ(nobody.get("/metrics").status, 401);
  EXPECT_EQ(code_of(nobody.post("/v1/models/default/rank", kRank)), "no_key");
  EXPECT_EQ(code_of(wrong.post("/v1/models/default/rank", kRank)), "unknown_key");
  EXPECT_EQ(decide.post("/v1/models/default/rank", kRank).status, 200);
  EXPECT_EQ(decide.get("/v1/models").status, 403);
  EXPECT_EQ(read.get("/v1/models").status, 200);
  EXPECT_EQ(read.get("/metrics").status, 200);
  EXPECT_EQ(code_of(read.post("/v1/models/default/rank", kRank)), "not_allowed");
  EXPECT_EQ(read.send("DELETE", "/v1/models/default", "").status, 403);
  EXPECT_EQ(admin.post("/v1/models/default/rank", kRank).status, 200);
  EXPECT_EQ(admin.post("/v1/models", R"({"name":"other"})").status, 201);
  EXPECT_EQ(admin.send("DELETE", "/v1/models/other", "").status, 204);
  HttpClient bearer(port);
  bearer.send_raw(
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer read-secret\r\n\r\n");
  EXPECT_EQ(bearer.read_reply().status, 200);
  // The log of the service does not contain the keys.
  EXPECT_EQ(server.program().errors_so_far().find("secret"), std::string::npos);
}

TEST(Service, WithoutKeysItListensOnLoopbackOnly) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program({"serve", "--data", (folder / "data").string(), "--host", "0.0.0.0"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.errors.find("loopback only"), std::string::npos);
  // A host name that looks like loopback but that anybody may own.
  const ProgramOutcome name =
      run_program({"serve", "--data", (folder / "data").string(), "--host", "127.0.0.1.invalid"});
  EXPECT_EQ(name.status, 2);
}

TEST(Service, BodiesAndHeadersAreLimited) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  HttpClient http(server.port());
  const HttpReply large =
      http.post("/v1/models/default/rank", "{\"a\":\"" + std::string(1 << 20, 'x') + "\"}");
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(code_of(large), "too_large");
  // A body without a stated length.
  HttpClient chunked(server.port());
  chunked.send_raw(
      "POST /v1/models/default/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 20; ++i) {
    chunked.send_raw(chunk);
  }
  chunked.send_raw("0\r\n\r\n");
  EXPECT_EQ(chunked.read_reply().status, 413);
  HttpClient headers(server.port());
  headers.send_raw("GET /livez HTTP/1.1\r\nHost: localhost\r\nA: " + std::string(200'000, 'a') +
                   "\r\n\r\n");
  EXPECT_GE(headers.read_reply().status, 400);
  EXPECT_EQ(http.get("/livez").status, 200);
  EXPECT_EQ(http.get("/v1/nothing").status, 404);
  const HttpReply method = http.send("PUT", "/v1/models", "");
  EXPECT_EQ(method.status, 405);
  EXPECT_NE(method.head.find("Allow: GET, POST"), std::string::npos);
}

TEST(Service, SlowClientsAreEndedAndBlockNobody) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data", {"--header-seconds", "0.3", "--body-seconds", "0.3",
                                         "--idle-seconds", "0.6"});
  const std::uint16_t port = server.port();
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (const char* beginning :
       {"GET /livez HTTP/1.1\r\nHo", "POST /v1/models/default/rank HTTP/1.1\r\nHost: localhost\r\n",
        "POST /v1/models/default/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: 90\r\n\r\n{",
        "GET"}) {
    slow.push_back(std::make_unique<HttpClient>(port));
    slow.back()->send_raw(beginning);
  }
  // These clients send a byte now and then; other clients are served meanwhile.
  HttpClient quick(port);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(quick.post("/v1/models/default/rank", kRank).status, 200);
    for (const auto& client : slow) {
      client->send_raw("a");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  for (const auto& client : slow) {
    EXPECT_TRUE(client->ended());
  }
}

TEST(Service, ConnectionsAreLimited) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data", {"--connections", "3"});
  const std::uint16_t port = server.port();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port));
    EXPECT_EQ(clients.back()->get("/livez").status, 200);
  }
  clients.pop_back();
  bool served = false;  // the slot becomes free soon after the connection has ended
  for (int i = 0; i < 200 && !served; ++i) {
    try {
      HttpClient next(port);
      served = next.get("/livez").status == 200;
    } catch (const ConnectionLost&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  EXPECT_TRUE(served);
}

TEST(Service, AFullQueueIsAnsweredWith503AndRetryAfter) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data", {"--queue", "1"});
  const std::uint16_t port = server.port();
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 12; ++client) {
    clients.emplace_back([&] {
      HttpClient http(port);
      for (int i = 0; i < 400 && refused < 5; ++i) {
        const HttpReply reply = http.post("/v1/models/default/rank", kRank);
        if (reply.status == 200) {
          ++served;
        } else {
          EXPECT_EQ(reply.status, 503);
          EXPECT_EQ(code_of(reply), "overloaded");
          EXPECT_NE(reply.head.find("Retry-After: 1"), std::string::npos);
          ++refused;
        }
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_GT(served, 0);
  EXPECT_GE(refused, 5);
  HttpClient http(port);
  EXPECT_EQ(http.post("/v1/models/default/rank", kRank).status, 200);
}

TEST(Service, SpeaksTls) {
  const TemporaryFolder folder;
  const std::string key = (folder / "key.pem").string();
  const std::string certificate = (folder / "certificate.pem").string();
  ASSERT_EQ(std::system(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
                         " -addext subjectAltName=DNS:localhost -keyout " +
                         key + " -out " + certificate + " 2> " + (folder / "openssl").string())
                            .c_str()),
            0);
  ServerProgram server(folder / "data", {"--certificate", certificate, "--private-key", key});
  const std::string address = "https://localhost:" + std::to_string(server.port());
  const std::string printed = (folder / "printed").string();
  EXPECT_EQ(std::system(("curl -sS --fail --cacert " + certificate + " " + address + "/readyz > " +
                         printed + " 2>&1")
                            .c_str()),
            0)
      << file_contents(printed);
  EXPECT_EQ(file_contents(printed), R"({"status":"ready"})");
}

TEST(Service, MetricsCountWhatHappens) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  HttpClient http(server.port());
  const std::string event =
      json::parse(http.post("/v1/models/default/rank", kRank).body).at("eventId");
  http.post("/v1/models/default/events/" + event + "/reward", R"({"value":1})");
  http.post("/v1/models/default/events/nobody/reward", R"({"value":1})");
  std::string text;
  do {
    text = http.get("/metrics").body;  // figures of models are up to a second old
  } while (text.find("mcnb_learned_total{model=\"default\"} 1\n") == std::string::npos);
  for (const char* line :
       {"mcnb_requests_total{route=\"rank\",status=\"2xx\"} 1\n",
        "mcnb_requests_total{route=\"reward\",status=\"4xx\"} 1\n",
        "mcnb_rewards_total{outcome=\"learned\"} 1\n",
        "mcnb_rewards_total{outcome=\"unknown\"} 1\n",
        "mcnb_decisions_total{model=\"default\"} 1\n", "mcnb_users{model=\"default\"} 1\n",
        "mcnb_pending_events{model=\"default\"} 0\n", "mcnb_ready 1\n",
        "mcnb_request_seconds_count{route=\"rank\"} 1\n", "# TYPE mcnb_commit_rows histogram\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

// The limit of the server's files, which acts like a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
};

TEST(Service, AFullDiskIsAnsweredWith503AndNothingAcknowledgedIsLost) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml",
           "[models.default]\ndimension = 8\n[models.default.options]\nwidth = 8\n");
  std::unique_ptr<ServerProgram> server;
  {
    const SmallDisk small(4'000'000);
    server = std::make_unique<ServerProgram>(
        folder / "data",
        std::vector<std::string>{"--config", (folder / "config.toml").string(), "--threads", "1"});
    server->port();
  }
  HttpClient http(server->port());
  std::vector<std::string> acknowledged;
  HttpReply reply;
  // A few more requests may succeed, because SQLite reuses free space.
  for (int i = 0, failures = 0; i < 3000 && failures < 4; ++i) {
    const std::string event = "event-" + std::to_string(i);
    reply =
        http.post("/v1/models/default/rank", R"({"eventId":")" + event + R"(",)" + kRank.substr(1));
    if (reply.status == 200) {
      acknowledged.push_back(event);
      failures = 0;
    } else {
      ++failures;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  }
  EXPECT_GT(acknowledged.size(), 50U);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(code_of(reply), "storage_failed");
  EXPECT_NE(reply.head.find("Retry-After"), std::string::npos);
  EXPECT_EQ(http.get("/readyz").status, 503);
  EXPECT_EQ(http.get("/livez").status, 200);
  // The disk has space again.
  const rlimit enough{RLIM_INFINITY, RLIM_INFINITY};
  server->program().limit(RLIMIT_FSIZE, enough);
  while (http.get("/readyz").status != 200) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const std::string& event : acknowledged) {
    const HttpReply rewarded =
        http.post("/v1/models/default/events/" + event + "/reward", R"({"value":1})");
    ASSERT_EQ(rewarded.body, R"({"outcome":"learned"})") << event;
  }
  EXPECT_EQ(server->stop().status, 0);
  const Verification states = verify_data((folder / "data").string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
}

TEST(Service, ThePrintedConfigurationReadsBackTheSame) {
  const TemporaryFolder folder;
  const ProgramOutcome printed = run_program({"serve", "--print-config", "--port", "1234"});
  EXPECT_EQ(printed.status, 0);
  EXPECT_NE(printed.output.find("port = 1234"), std::string::npos);
  put_file(folder / "config.toml", printed.output);
  const ProgramOutcome again =
      run_program({"serve", "--print-config", "--config", (folder / "config.toml").string()});
  EXPECT_EQ(again.output, printed.output);
  put_file(folder / "bad.toml", "port = 80\nqueue = 1\nprot = 1\n");
  const ProgramOutcome bad =
      run_program({"serve", "--print-config", "--config", (folder / "bad.toml").string()});
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.errors.find("bad.toml:3"), std::string::npos) << bad.errors;
}

TEST(Service, ANewKeyIsShownOnceAndStoredAsAHash) {
  const ProgramOutcome outcome = run_program({"serve", "--new-key", "decide"});
  EXPECT_EQ(outcome.status, 0);
  const std::string key = outcome.output.substr(outcome.output.find(": ") + 2, 64);
  EXPECT_NE(outcome.output.find("sha256 = \"" + sha256_hex(key) + "\""), std::string::npos);
  EXPECT_EQ(run_program({"serve", "--new-key", "king"}).status, 2);
}

TEST(Service, ChallengersOfTheConfigurationAreAddedOnce) {
  const TemporaryFolder folder;
  const auto config = folder / "config.toml";
  put_file(config,
           "[models.m]\ndimension = 4\n[models.m.challengers.linear]\npolicy = \"linucb\"\n"
           "weights = \"clipped\"\n[models.m.challengers.linear.options]\nalpha = 0.3\n");
  std::uint64_t position = 0;
  for (int start = 0; start < 2; ++start) {
    ServerProgram server(folder / "data", {"--config", config.string()});
    HttpClient http(server.port());
    const json shown = json::parse(http.get("/v1/models/m").body);
    ASSERT_EQ(shown.at("challengers").size(), 1U);
    const json& challenger = shown.at("challengers")[0];
    EXPECT_EQ(challenger.at("name"), "linear");
    EXPECT_EQ(challenger.at("weights"), "clipped");
    EXPECT_EQ(challenger.at("options").at("alpha"), "0.3");
    position = start == 0 ? challenger.at("sincePosition").get<std::uint64_t>() : position;
    EXPECT_EQ(challenger.at("sincePosition"), position) << "it is still the same one";
  }
  put_file(config, "[models.m]\n[models.m.challengers.linear]\npolicy = \"linear\"\n");
  ServerProgram refused(folder / "data", {"--config", config.string()});
  const auto ended = refused.wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.errors.find("config.toml:"), std::string::npos) << ended.errors;
}

}  // namespace
}  // namespace mcnb::service_test
