// The real `mcnb serve`: keys, TLS, limits, slow and rude clients, a full disk.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/server.h"
#include "tests/serve/serving.h"

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
    Serving server(folder / "data");
    HttpClient http(server.port());
    const HttpReply reply = http.post("/v1/models/default/rank", kRank);
    ASSERT_EQ(reply.status, 200) << reply.body;
    event = json::parse(reply.body).at("eventId");
    const ProgramOutcome outcome = server.stop();
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find("\"message\":\"stopped\""), std::string::npos);
  }
  Serving server(folder / "data");
  HttpClient http(server.port());
  EXPECT_EQ(http.get("/v1/models/default/events/" + event).status, 200);
}

TEST(Service, ASecondServerOnTheSameDataIsRefused) {
  const TemporaryFolder folder;
  Serving first(folder / "data");
  first.port();
  Serving second(folder / "data");
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
  Serving server(folder / "data", {"--config", (folder / "config.toml").string()});
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
      "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer read-secret\r\n\r\n");
  EXPECT_EQ(bearer.read_reply().status, 200);
  // The keys themselves are nowhere.
  EXPECT_EQ(server.program().errors_so_far().find("secret"), std::string::npos);
}

TEST(Service, WithoutKeysItListensOnLoopbackOnly) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program({"serve", "--data", (folder / "data").string(), "--host", "0.0.0.0"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.errors.find("loopback only"), std::string::npos);
  // What looks like loopback, but is a name that anybody may own.
  const ProgramOutcome name =
      run_program({"serve", "--data", (folder / "data").string(), "--host", "127.0.0.1.invalid"});
  EXPECT_EQ(name.status, 2);
}

TEST(Service, BodiesAndHeadersAreLimited) {
  const TemporaryFolder folder;
  Serving server(folder / "data");
  HttpClient http(server.port());
  const HttpReply large =
      http.post("/v1/models/default/rank", "{\"a\":\"" + std::string(1 << 20, 'x') + "\"}");
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(code_of(large), "too_large");
  // A body that does not say how long it is.
  HttpClient chunked(server.port());
  chunked.send_raw(
      "POST /v1/models/default/rank HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 20; ++i) {
    chunked.send_raw(chunk);
  }
  chunked.send_raw("0\r\n\r\n");
  EXPECT_EQ(chunked.read_reply().status, 413);
  HttpClient headers(server.port());
  headers.send_raw("GET /livez HTTP/1.1\r\nHost: x\r\nA: " + std::string(200'000, 'a') +
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
  Serving server(folder / "data",
                 {"--header-seconds", "0.3", "--body-seconds", "0.3", "--idle-seconds", "0.6"});
  const std::uint16_t port = server.port();
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (const char* beginning :
       {"GET /livez HTTP/1.1\r\nHo", "POST /v1/models/default/rank HTTP/1.1\r\nHost: x\r\n",
        "POST /v1/models/default/rank HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{", "GET"}) {
    slow.push_back(std::make_unique<HttpClient>(port));
    slow.back()->send_raw(beginning);
  }
  // They send a byte now and then; others are served meanwhile.
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
  Serving server(folder / "data", {"--connections", "3"});
  const std::uint16_t port = server.port();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port));
    EXPECT_EQ(clients.back()->get("/livez").status, 200);
  }
  clients.pop_back();
  bool served = false;  // the place becomes free soon after the connection has ended
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
  Serving server(folder / "data", {"--queue", "1"});
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
  Serving server(folder / "data", {"--certificate", certificate, "--private-key", key});
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
  Serving server(folder / "data");
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

// Files of the server may not grow beyond this: a disk that is full.
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
  std::unique_ptr<Serving> server;
  {
    const SmallDisk small(1'000'000);
    server = std::make_unique<Serving>(
        folder / "data",
        std::vector<std::string>{"--config", (folder / "config.toml").string(), "--threads", "1"});
    server->port();
  }
  HttpClient http(server->port());
  std::vector<std::string> acknowledged;
  HttpReply reply;
  // Space that SQLite finds again lets a few more through.
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
  // There is room again.
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

TEST(Service, DamagedDataIsRefusedByName) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data");
  put_file(folder / "data" / "mcnb.db", std::string(5000, 'x'));
  Serving server(folder / "data");
  const ProgramOutcome outcome = server.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("mcnb.db"), std::string::npos) << outcome.errors;
  EXPECT_EQ(file_contents(folder / "data" / "mcnb.db"), std::string(5000, 'x'));
}

// A folder with two snapshots and the event "kept"; the database holds all of it.
void serve_twice(const std::filesystem::path& data) {
  for (const char* event : {"kept", "later"}) {
    Serving server(data);
    HttpClient http(server.port());
    const HttpReply reply =
        http.post("/v1/models/default/rank",
                  R"({"eventId":")" + std::string(event) + R"(",)" + kRank.substr(1));
    ASSERT_EQ(reply.status, 200) << reply.body;
    ASSERT_EQ(server.stop().status, 0);
  }
}

std::vector<std::filesystem::path> snapshots_of(const std::filesystem::path& data) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data / "snapshots")) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void change_byte(const std::filesystem::path& path, std::size_t at) {
  std::string bytes = file_contents(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  put_file(path, bytes);
}

TEST(Service, ADamagedSnapshotIsSetAsideAndTheOneBeforeServes) {
  const TemporaryFolder folder;
  serve_twice(folder / "data");
  const auto snapshots = snapshots_of(folder / "data");
  ASSERT_EQ(snapshots.size(), 2U);
  change_byte(snapshots[1], file_contents(snapshots[1]).size() / 2);
  Serving server(folder / "data");
  HttpClient http(server.port());
  for (const char* event : {"kept", "later"}) {
    EXPECT_EQ(http.get("/v1/models/default/events/" + std::string(event)).status, 200);
  }
  const ProgramOutcome outcome = server.stop();
  EXPECT_NE(outcome.errors.find("went back to the snapshot"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(std::filesystem::exists(snapshots[1].string() + ".damaged"));
  EXPECT_TRUE(std::filesystem::exists(snapshots[0]));
}

TEST(Service, ADamagedEventIsRefusedByName) {
  const TemporaryFolder folder;
  serve_twice(folder / "data");
  const std::filesystem::path database = folder / "data" / "mcnb.db";
  std::filesystem::remove_all(folder / "data" / "snapshots");  // so that all events are needed
  change_byte(database, file_contents(database).find("kept") + 1);
  const std::string damaged = file_contents(database);
  Serving server(folder / "data");
  const ProgramOutcome outcome = server.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("checksum"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(file_contents(database) == damaged);
}

TEST(Service, AFolderThatCannotBeWrittenIsRefused) {
  const TemporaryFolder folder;
  serve_twice(folder / "data");
  const std::string before = file_contents(folder / "data" / "mcnb.db");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "data")) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms(0555));
  }
  std::filesystem::permissions(folder / "data", std::filesystem::perms(0555));
  // The administrator may write everywhere, unless that right is given up.
  const std::vector<std::string> serve{"serve", "--data", (folder / "data").string(), "--port",
                                       "0"};
  std::vector<std::string> plainly{"--bounding-set=-dac_override", "--inh-caps=-all", MCNB_BINARY};
  plainly.insert(plainly.end(), serve.begin(), serve.end());
  const ProgramOutcome outcome =
      ::geteuid() == 0 ? Program(plainly, {}, "/usr/bin/setpriv").wait() : Program(serve).wait();
  std::filesystem::permissions(folder / "data", std::filesystem::perms(0755));
  std::filesystem::permissions(folder / "data" / "snapshots", std::filesystem::perms(0755));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find((folder / "data").string()), std::string::npos) << outcome.errors;
  EXPECT_TRUE(file_contents(folder / "data" / "mcnb.db") == before);
}

// A data folder whose one event waits since `time`, in milliseconds since 1970.
void decide_at(const std::filesystem::path& data, std::int64_t time) {
  std::filesystem::create_directories(data);
  ThreadPool threads(1);
  ModelHost host(data, threads);
  LogStore store(data, LogStore::Access::kReadWrite);
  host.recover(store);
  ModelOptions options;
  options.dimension = 2;
  host.create("default", options);
  RankRequest request;
  request.event_id = "old";
  request.user_id = "ann";
  request.actions = {"a"};
  request.features = {1.0F, 0.0F};
  request.eligible = {true};
  ASSERT_TRUE(host.decide("default", {&request}, time, store).front().decision.has_value());
  write_batch(store, host.take_batch());
}

TEST(Service, ClocksThatWereAheadOrBehindDoNoHarm) {
  const TemporaryFolder folder;
  constexpr std::int64_t kFuture = 32'503'680'000'000;  // the year 3000
  decide_at(folder / "ahead", kFuture);
  {
    // Before the restart the clock was far ahead: times go on from there, and the event waits.
    Serving server(folder / "ahead");
    HttpClient http(server.port());
    EXPECT_EQ(http.post("/v1/models/default/events/old/reward", R"({"value":1})").body,
              R"({"outcome":"learned"})");
    const HttpReply reply = http.post("/v1/models/default/rank",
                                      R"({"eventId":"new","userId":"u","actions":[{"id":"a"}]})");
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_GE(json::parse(http.get("/v1/models/default/events/new").body).at("time"), kFuture);
    EXPECT_EQ(server.stop().status, 0);
  }
  decide_at(folder / "behind", 1000);
  {
    // Before the restart it was 1970: the waiting time is over, but nothing is erased by age.
    Serving server(folder / "behind");
    HttpClient http(server.port());
    EXPECT_EQ(http.post("/v1/models/default/events/old/reward", R"({"value":1})").body,
              R"({"outcome":"late"})");
    EXPECT_EQ(http.get("/v1/models/default/events/old").status, 200);
    const ProgramOutcome outcome = server.stop();
    EXPECT_NE(outcome.errors.find("the clock stands far after"), std::string::npos);
  }
  for (const char* data : {"ahead", "behind"}) {
    const Verification states = verify_data((folder / data).string(), 1);
    EXPECT_TRUE(states.agree) << states.lines.front();
    EXPECT_EQ(LogStore(folder / data, LogStore::Access::kReadOnly).base_place(), 0U);
  }
}

TEST(Service, ABackupIsADataFolder) {
  const TemporaryFolder folder;
  std::string kept;
  {
    Serving server(folder / "data");
    HttpClient http(server.port());
    http.post("/v1/models/default/rank", R"({"eventId":"before",)" + kRank.substr(1));
    EXPECT_EQ(http.post("/v1/models/default/snapshot", "").status, 200);
    http.post("/v1/models/default/rank", R"({"eventId":"kept",)" + kRank.substr(1));
    http.post("/v1/models/default/events/before/reward", R"({"value":1})");
    EXPECT_EQ(http.post("/v1/backup", R"({"name":"monday"})").status, 201);
    EXPECT_EQ(code_of(http.post("/v1/backup", R"({"name":"monday"})")), "backup_exists");
    http.post("/v1/models/default/rank", R"({"eventId":"after",)" + kRank.substr(1));
    kept = http.get("/v1/models/default/events/kept").body;
  }
  const std::filesystem::path backup = folder / "data" / "backups" / "monday";
  const Verification states = verify_data(backup.string(), 1);
  EXPECT_TRUE(states.agree) << states.lines.front();
  Serving server(backup);
  HttpClient http(server.port());
  EXPECT_EQ(http.get("/v1/models/default/events/kept").body, kept);
  EXPECT_EQ(http.get("/v1/models/default/events/after").status, 404);
  EXPECT_EQ(http.post("/v1/models/default/events/kept/reward", R"({"value":1})").body,
            R"({"outcome":"learned"})");
  EXPECT_EQ(json::parse(http.get("/v1/models/default").body).at("modelVersion"), 2);
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

}  // namespace
}  // namespace mcnb::service_test
