// The real `mcnb serve` on data folders that are damaged, read-only, from wrong clocks, or backups.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/server.h"
#include "tests/serve/server_program.h"

namespace mcnb::service_data_test {
namespace {

using nlohmann::json;

const std::string kRank = R"({"userId":"u","actions":[{"id":"a","features":{"x":1}},{"id":"b"}]})";

std::string code_of(const HttpReply& reply) {
  return json::parse(reply.body).at("error").at("code").get<std::string>();
}

TEST(ServiceData, DamagedDataIsRefusedByName) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data");
  put_file(folder / "data" / "mcnb.db", std::string(5000, 'x'));
  ServerProgram server(folder / "data");
  const ProgramOutcome outcome = server.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("mcnb.db"), std::string::npos) << outcome.errors;
  EXPECT_EQ(file_contents(folder / "data" / "mcnb.db"), std::string(5000, 'x'));
}

// A folder with two snapshots and the event "kept"; the database holds all of it.
void serve_twice(const std::filesystem::path& data) {
  for (const char* event : {"kept", "later"}) {
    ServerProgram server(data);
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

TEST(ServiceData, ADamagedSnapshotIsSetAsideAndTheOneBeforeServes) {
  const TemporaryFolder folder;
  serve_twice(folder / "data");
  const auto snapshots = snapshots_of(folder / "data");
  ASSERT_EQ(snapshots.size(), 2U);
  change_byte(snapshots[1], file_contents(snapshots[1]).size() / 2);
  ServerProgram server(folder / "data");
  HttpClient http(server.port());
  for (const char* event : {"kept", "later"}) {
    EXPECT_EQ(http.get("/v1/models/default/events/" + std::string(event)).status, 200);
  }
  const ProgramOutcome outcome = server.stop();
  EXPECT_NE(outcome.errors.find("went back to the snapshot"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(std::filesystem::exists(snapshots[1].string() + ".damaged"));
  EXPECT_TRUE(std::filesystem::exists(snapshots[0]));
}

TEST(ServiceData, ADamagedEventIsRefusedByName) {
  const TemporaryFolder folder;
  serve_twice(folder / "data");
  const std::filesystem::path database = folder / "data" / "mcnb.db";
  std::filesystem::remove_all(folder / "data" / "snapshots");  // so that all events are needed
  change_byte(database, file_contents(database).find("kept") + 1);
  const std::string damaged = file_contents(database);
  ServerProgram server(folder / "data");
  const ProgramOutcome outcome = server.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("checksum"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(file_contents(database) == damaged);
}

TEST(ServiceData, ALossOfAcknowledgedEventsIsRefusedUntilItIsAccepted) {
  const TemporaryFolder folder;
  {
    ServerProgram server(folder / "data");
    HttpClient http(server.port());
    for (const char* event : {"one", "two", "three"}) {
      const std::string body = R"({"eventId":")" + std::string(event) + R"(",)" + kRank.substr(1);
      ASSERT_EQ(http.post("/v1/models/default/rank", body).status, 200);
    }
    server.kill();
    server.wait();
  }
  const std::filesystem::path wal = folder / "data" / "mcnb.db-wal";
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) - 100);
  ServerProgram refused(folder / "data");
  const ProgramOutcome outcome = refused.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("model 1: log rows 4 to 4 (1 events)"), std::string::npos)
      << outcome.errors;
  const std::string flag = "--accept-loss ";
  const std::size_t at = outcome.errors.find(flag);
  ASSERT_NE(at, std::string::npos) << outcome.errors;
  const auto number = std::to_string(std::stoull(outcome.errors.substr(at + flag.size())));
  put_file(folder / "config.toml", "accept_loss = " + number + "\n");
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  HttpClient http(server.port());
  EXPECT_EQ(http.get("/v1/models/default/events/two").status, 200);
  EXPECT_EQ(http.get("/v1/models/default/events/three").status, 404);
  EXPECT_NE(server.stop().errors.find("was accepted"), std::string::npos);
}

TEST(ServiceData, DamageInOldRowsIsNamedWhileTheServiceGoesOn) {
  const TemporaryFolder folder;
  serve_twice(folder / "data");
  const std::filesystem::path database = folder / "data" / "mcnb.db";
  change_byte(database, file_contents(database).find("kept") + 1);
  ServerProgram server(folder / "data", {"--check-megabytes", "0"});
  HttpClient http(server.port());
  json ready;
  for (int i = 0; i < 500 && !ready.contains("damage"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const HttpReply reply = http.get("/readyz");
    ASSERT_EQ(reply.status, 200);
    ready = json::parse(reply.body);
  }
  ASSERT_EQ(ready.at("damage").size(), 1U) << ready;
  EXPECT_EQ(ready["damage"][0]["model"], 1);
  EXPECT_EQ(ready["damage"][0]["first"], ready["damage"][0]["last"]);
  EXPECT_NE(http.get("/metrics").body.find("mcnb_log_damaged 1"), std::string::npos);
  EXPECT_EQ(code_of(http.get("/v1/models/default/events/kept")), "event_damaged");
  EXPECT_EQ(http.get("/v1/models/default/events/later").status, 200);
  EXPECT_NE(server.stop().errors.find("the log is damaged"), std::string::npos);
}

TEST(ServiceData, AFolderThatCannotBeWrittenIsRefused) {
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
  const std::unique_ptr<Storage> storage = open_data_folder(data, StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  host.recover();
  ModelOptions options;
  options.dimension = 2;
  host.create("default", options);
  RankRequest request;
  request.event_id = "old";
  request.user_id = "ann";
  request.actions = {"a"};
  request.features = {1.0F, 0.0F};
  request.eligible = {true};
  ASSERT_TRUE(host.decide("default", {&request}, time).front().decision.has_value());
  storage->log().commit(host.take_batch());
}

TEST(ServiceData, ClocksThatWereAheadOrBehindDoNoHarm) {
  const TemporaryFolder folder;
  constexpr std::int64_t kFuture = 32'503'680'000'000;  // the year 3000
  decide_at(folder / "ahead", kFuture);
  {
    // Before the restart the clock was far ahead: times go on from there, and the event waits.
    ServerProgram server(folder / "ahead");
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
    ServerProgram server(folder / "behind");
    HttpClient http(server.port());
    EXPECT_EQ(http.post("/v1/models/default/events/old/reward", R"({"value":1})").body,
              R"({"outcome":"late"})");
    EXPECT_EQ(http.get("/v1/models/default/events/old").status, 200);
    const ProgramOutcome outcome = server.stop();
    EXPECT_NE(outcome.errors.find("the clock is far ahead"), std::string::npos);
  }
  for (const char* data : {"ahead", "behind"}) {
    const Verification states = verify_data((folder / data).string(), 1);
    EXPECT_TRUE(states.agree) << states.lines.front();
    const auto storage = open_data_folder(folder / data, StorageAccess::kLook);
    EXPECT_TRUE(storage->log().models().front().complete);
  }
}

TEST(ServiceData, ABackupIsADataFolder) {
  const TemporaryFolder folder;
  std::string kept;
  {
    ServerProgram server(folder / "data");
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
  ServerProgram server(backup);
  HttpClient http(server.port());
  EXPECT_EQ(http.get("/v1/models/default/events/kept").body, kept);
  EXPECT_EQ(http.get("/v1/models/default/events/after").status, 404);
  EXPECT_EQ(http.post("/v1/models/default/events/kept/reward", R"({"value":1})").body,
            R"({"outcome":"learned"})");
  EXPECT_EQ(json::parse(http.get("/v1/models/default").body).at("modelVersion"), 2);
}

TEST(ServiceData, OfBackupsOfOneNameAtOnceExactlyOneIsMade) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  const std::uint16_t port = server.port();
  HttpClient http(port);
  http.post("/v1/models/default/rank", kRank);
  for (int round = 0; round < 5; ++round) {
    const std::string name = "backup-" + std::to_string(round);
    std::vector<HttpReply> replies(6);
    std::vector<std::thread> clients;
    for (HttpReply& reply : replies) {
      clients.emplace_back([&reply, &name, port] {
        reply = HttpClient(port).post("/v1/backup", R"({"name":")" + name + R"("})");
      });
    }
    for (std::thread& client : clients) {
      client.join();
    }
    EXPECT_EQ(std::ranges::count(replies, 201, &HttpReply::status), 1);
    for (const HttpReply& reply : replies) {
      EXPECT_TRUE(reply.status == 201 || code_of(reply) == "backup_exists") << reply.body;
    }
    EXPECT_TRUE(verify_data((folder / "data" / "backups" / name).string(), 1).agree);
  }
}

TEST(ServiceData, AKilledBackupDoesNotBlockItsNameAndIsRemovedAtTheNextStart) {
  const TemporaryFolder folder;
  const std::filesystem::path backups = folder / "data" / "backups";
  {
    ServerProgram server(folder / "data");
    HttpClient http(server.port());
    EXPECT_EQ(http.post("/v1/backup", R"({"name":"sunday"})").status, 201);
    put_file(backups / ".monday.part" / "mcnb.db", "half of a database");
    EXPECT_EQ(http.post("/v1/backup", R"({"name":"monday"})").status, 201);
    EXPECT_TRUE(verify_data((backups / "monday").string(), 1).agree);
    server.kill();
    server.wait();
  }
  put_file(backups / ".tuesday.part" / "snapshots" / "x", "half");
  ServerProgram server(folder / "data");
  EXPECT_EQ(HttpClient(server.port()).get("/readyz").status, 200);
  EXPECT_FALSE(std::filesystem::exists(backups / ".tuesday.part"));
  EXPECT_TRUE(std::filesystem::exists(backups / "sunday" / "mcnb.db"));
  EXPECT_TRUE(std::filesystem::exists(backups / "monday" / "mcnb.db"));
}

TEST(ServiceData, AFolderThatIsRemovedWhileTheServerRunsIsAnsweredWith503) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  HttpClient http(server.port());
  ASSERT_EQ(http.post("/v1/models/default/rank", kRank).status, 200);
  std::filesystem::remove_all(folder / "data");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(http.post("/v1/models/default/rank", kRank).status, 503);
  }
  EXPECT_EQ(http.post("/v1/backup", R"({"name":"late"})").status, 503);
  HttpReply ready = http.get("/readyz");
  for (int i = 0; i < 500 && ready.body.find("removed") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ready = http.get("/readyz");
  }
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("the data folder was removed or replaced"), std::string::npos)
      << ready.body;
  EXPECT_EQ(http.get("/livez").status, 200);
  EXPECT_EQ(server.stop().status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
}

// Runs mcnb without the administrator's right to write everywhere.
ProgramOutcome run_plainly(std::vector<std::string> arguments) {
  if (::geteuid() != 0) {
    return run_program(std::move(arguments));
  }
  arguments.insert(arguments.begin(),
                   {"--bounding-set=-dac_override", "--inh-caps=-all", MCNB_BINARY});
  return Program(arguments, {}, "/usr/bin/setpriv").wait();
}

void set_rights(const std::filesystem::path& folder, unsigned rights) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms(rights));
  }
  std::filesystem::permissions(folder, std::filesystem::perms(rights));
}

TEST(ServiceData, AFolderThatMayOnlyBeReadIsVerifiedWithAndWithoutAWal) {
  const TemporaryFolder folder;
  const std::filesystem::path data = folder / "data";
  serve_twice(data);
  const std::vector<std::string> verify{"serve", "--verify", "--data", data.string()};
  for (const bool with_wal : {false, true}) {
    if (with_wal) {
      ServerProgram server(data);
      HttpClient http(server.port());
      ASSERT_EQ(http.post("/v1/models/default/rank", kRank).status, 200);
      server.kill();
      server.wait();
      std::filesystem::remove(data / "mcnb.db-shm");  // an index, which a copy may lack
    }
    EXPECT_EQ(std::filesystem::exists(data / "mcnb.db-wal"), with_wal);
    set_rights(data, 0555);
    const auto before = std::filesystem::last_write_time(data);
    const ProgramOutcome outcome = run_plainly(verify);
    EXPECT_TRUE(std::filesystem::last_write_time(data) == before);
    set_rights(data, 0755);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("give the same state"), std::string::npos) << outcome.output;
    // The state is the one that a folder with all rights has.
    EXPECT_EQ(run_program(verify).output, outcome.output);
  }
}

TEST(ServiceData, VerifyingBesideAServerIsRefusedWithAdvice) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  server.port();
  const ProgramOutcome outcome =
      run_program({"serve", "--verify", "--data", (folder / "data").string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("a server has this data folder"), std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("backup"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace mcnb::service_data_test
