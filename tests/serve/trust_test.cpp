// The real `mcnb serve`: who may do what, what is written down about it, and what can be changed
// while it runs.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "mcnb/serve/http/api_keys.h"
#include "tests/serve/raw_connection.h"
#include "tests/serve/server_program.h"

namespace mcnb::trust_test {
namespace {

using nlohmann::json;

const std::string kRank = R"({"userId":"u","actions":[{"id":"a","features":{"x":1}},{"id":"b"}]})";

std::string key_lines(const std::string& role, const std::string& key) {
  return "[[keys]]\nname = \"" + role + " of " + key.substr(0, 3) + "\"\nrole = \"" + role +
         "\"\nsha256 = \"" + sha256_hex(key) + "\"\n";
}

std::string code_of(const HttpReply& reply) {
  return json::parse(reply.body).at("error").at("code").get<std::string>();
}

// The lines of a log that have this message.
std::vector<json> lines_with(const std::string& log, const std::string& message) {
  std::vector<json> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const json parsed = json::parse(line);
    if (parsed.at("message") == message) {
      found.push_back(parsed);
    }
  }
  return found;
}

// Waits until the log has so many lines with the message.
std::vector<json> wait_for(ServerProgram& server, const std::string& message, std::size_t count) {
  for (int i = 0; i < 1000; ++i) {
    const std::string log = server.program().errors_so_far();
    const std::vector<json> found = lines_with(log.substr(0, log.rfind('\n') + 1), message);
    if (found.size() >= count) {
      return found;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "the log never said: " << message;
  return std::vector<json>(count);
}

int status_of(std::uint16_t port, const std::string& head, const std::string& body = "") {
  RawConnection client(port);
  client.send(head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  return status_in(client.receive(10.0, "\r\n\r\n"));
}

TEST(Trust, WithoutKeysNoPageOfABrowserCanChangeAnything) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data",
                       {"--host-names", "bandit.example", "--origins", "https://shop.example"});
  const std::uint16_t port = server.port();
  const std::string json_type = "Content-Type: application/json\r\n";
  const std::string create = "POST /v1/models HTTP/1.1\r\n";
  const std::string local = "Host: localhost\r\n";
  // A simple request of another page, which browsers send without asking.
  EXPECT_EQ(status_of(port, create + local + "Content-Type: text/plain\r\n", R"({"name":"a"})"),
            415);
  EXPECT_EQ(status_of(port, create + local, R"({"name":"a"})"), 415);
  EXPECT_EQ(status_of(port, create + local + json_type + "Origin: http://evil.example\r\n",
                      R"({"name":"a"})"),
            403);
  EXPECT_EQ(
      status_of(port, "POST /v1/models/default/snapshot HTTP/1.1\r\n" + local + "Origin: null\r\n"),
      403);
  // DNS rebinding: for the browser it is the same origin.
  EXPECT_EQ(status_of(port,
                      "DELETE /v1/models/default HTTP/1.1\r\nHost: evil.example\r\n"
                      "Origin: http://evil.example\r\n"),
            403);
  EXPECT_EQ(status_of(port, "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n"), 403);
  HttpClient http(port);
  EXPECT_EQ(json::parse(http.get("/v1/models").body).at("models").size(), 1U);
  // What is right.
  EXPECT_EQ(status_of(port,
                      create + "Host: bandit.example\r\n" + json_type +
                          "Origin: https://shop.example\r\n",
                      R"({"name":"a"})"),
            201);
  EXPECT_EQ(status_of(port,
                      create + "Host: localhost:" + std::to_string(port) + "\r\n" + json_type +
                          "Origin: http://localhost:" + std::to_string(port) + "\r\n",
                      R"({"name":"b"})"),
            201);
}

// What the server sends before the body.
std::string head_of(std::uint16_t port, const std::string& request) {
  RawConnection client(port);
  client.send(request + "Host: localhost\r\n\r\n");
  const std::string text = client.receive(10.0, "\r\n\r\n");
  return text.substr(0, text.find("\r\n\r\n"));
}

TEST(Trust, OnlyPagesOfListedOriginsMayReadResponses) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml", key_lines("read", "secret"));
  const std::string config = (folder / "config.toml").string();
  const std::string ask = "OPTIONS /v1/models HTTP/1.1\r\nAccess-Control-Request-Method: GET\r\n";
  const std::string shop = "Origin: https://shop.example\r\n";
  const std::string allowed = "Access-Control-Allow-Origin: https://shop.example";
  {
    ServerProgram server(folder / "data", {"--config", config});
    EXPECT_EQ(head_of(server.port(), ask + shop).find("Access-Control"), std::string::npos);
    EXPECT_EQ(head_of(server.port(), "GET /livez HTTP/1.1\r\n" + shop).find("Access-Control"),
              std::string::npos);
  }
  ServerProgram server(folder / "data", {"--config", config, "--origins", "https://shop.example"});
  const std::string preflight = head_of(server.port(), ask + shop);
  EXPECT_EQ(status_in(preflight), 204);
  EXPECT_NE(preflight.find(allowed), std::string::npos);
  EXPECT_NE(preflight.find("Access-Control-Allow-Headers: Content-Type, X-API-Key"),
            std::string::npos);
  // Also what was refused, before or after the body, so that the page learns why.
  for (const char* request : {"GET /v1/models HTTP/1.1\r\n", "GET /nowhere HTTP/1.1\r\n",
                              "GET /v1/models HTTP/1.1\r\nX-API-Key: secret\r\n",
                              "GET /v1/series?x=1 HTTP/1.1\r\nX-API-Key: secret\r\n"}) {
    const std::string head = head_of(server.port(), request + shop);
    EXPECT_NE(head.find(allowed), std::string::npos) << request;
    EXPECT_NE(head.find("Vary: Origin"), std::string::npos) << request;
  }
  const std::string other = head_of(server.port(), ask + "Origin: https://evil.example\r\n");
  EXPECT_EQ(status_in(other), 403);
  EXPECT_EQ(other.find("Access-Control"), std::string::npos);
}

TEST(Trust, RequestsAreLinesOfTheLogWithoutIdsAndPassTheirTraceOn) {
  const TemporaryFolder folder;
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const std::string traceparent = "traceparent: 00-" + trace + "-00f067aa0ba902b7-01";
  const std::string user = "GET /v1/models/default/users/secret-person HTTP/1.1\r\n";
  {
    ServerProgram server(folder / "data");
    EXPECT_NE(head_of(server.port(), user + traceparent + "\r\n").find(traceparent),
              std::string::npos);
    EXPECT_EQ(head_of(server.port(), user + "traceparent: 00-XYZ-1-01\r\n").find("traceparent"),
              std::string::npos);
    const std::vector<json> lines = wait_for(server, "request", 1);
    EXPECT_EQ(lines[0].at("path"), "/v1/models/{model}/users/{id}");
    EXPECT_EQ(lines[0].at("status"), "404");
    EXPECT_EQ(lines[0].at("trace"), trace);
    for (int i = 0; i < 200; ++i) {
      status_of(server.port(), "GET /livez HTTP/1.1\r\nHost: localhost\r\n");
    }
    const ProgramOutcome outcome = server.stop();
    EXPECT_EQ(outcome.errors.find("secret-person"), std::string::npos);
    EXPECT_EQ(outcome.errors.find("XYZ"), std::string::npos);
    const std::vector<json> all = lines_with(outcome.errors, "request");
    std::size_t counted = all.size();
    for (const json& line : all) {
      counted += std::stoul(line.at("notWrittenBefore").get<std::string>());
    }
    EXPECT_LE(counted, 202U);
    EXPECT_LT(all.size(), 202U) << "under load they are a sample";
  }
  ServerProgram server(folder / "data", {"--request-ids", "yes"});
  head_of(server.port(), user);
  const json line = wait_for(server, "request", 1)[0];
  EXPECT_EQ(line.at("path"), "/v1/models/default/users/secret-person");
  EXPECT_EQ(line.at("client"), "127.0.0.1");
  ServerProgram silent(folder / "other", {"--request-lines", "0"});
  head_of(silent.port(), user);
  EXPECT_TRUE(lines_with(silent.stop().errors, "request").empty());
}

TEST(Trust, TheSchemeOfAuthorizationMayHaveAnyCase) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml", key_lines("read", "secret"));
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  const std::uint16_t port = server.port();
  for (const char* value : {"Bearer secret", "bearer secret", "BEARER   secret"}) {
    EXPECT_EQ(status_of(port, std::string("GET /v1/models HTTP/1.1\r\nHost: any\r\n") +
                                  "Authorization: " + value + "\r\n"),
              200)
        << value;
  }
  EXPECT_EQ(
      status_of(port, "GET /v1/models HTTP/1.1\r\nHost: any\r\nAuthorization: Basic secret\r\n"),
      401);
}

TEST(Trust, ChangesAndRefusedKeysAreWrittenDownWithoutSecretsAndUsers) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml",
           key_lines("admin", "boss-secret") + key_lines("decide", "shop-secret"));
  const std::string audit = (folder / "audit.log").string();
  ServerProgram server(folder / "data",
                       {"--config", (folder / "config.toml").string(), "--audit-log", audit});
  const std::uint16_t port = server.port();
  HttpClient admin(port, "boss-secret");
  HttpClient shop(port, "shop-secret");
  HttpClient wrong(port, "a-guess");
  EXPECT_EQ(admin.post("/v1/models", R"({"name":"new"})").status, 201);
  EXPECT_EQ(admin.send("PATCH", "/v1/models/new", R"({"epsilon":0.3})").status, 200);
  EXPECT_EQ(admin.post("/v1/models", R"({"name":"new"})").status, 409);
  EXPECT_EQ(
      shop.post("/v1/models/new/rank", R"({"userId":"Some Body","actions":[{"id":"a"}]})").status,
      200);
  EXPECT_EQ(admin.send("DELETE", "/v1/models/new/users/Some%20Body", "").status, 204);
  const std::string rival = R"({"name":"rival","policy":"linucb"})";
  EXPECT_EQ(admin.post("/v1/models/new/challengers", rival).status, 201);
  EXPECT_EQ(admin.send("DELETE", "/v1/models/new/challengers/rival", "").status, 204);
  EXPECT_EQ(shop.send("DELETE", "/v1/models/new", "").status, 403);
  EXPECT_EQ(wrong.get("/v1/models").status, 401);
  const std::string log = server.program().errors_so_far();
  const std::vector<json> changes = lines_with(log, "a change");
  ASSERT_EQ(changes.size(), 6U);
  EXPECT_EQ(changes[0].at("level"), "audit");
  EXPECT_EQ(changes[0].at("key"), "admin of bos");
  EXPECT_EQ(changes[0].at("client"), "127.0.0.1");
  EXPECT_EQ(changes[0].at("body"), R"({"name":"new"})");
  EXPECT_EQ(changes[1].at("method"), "PATCH");
  EXPECT_EQ(changes[1].at("model"), "new");
  EXPECT_EQ(changes[2].at("status"), "409");
  EXPECT_EQ(changes[3].at("path"), "/v1/models/{model}/users/{id}");
  EXPECT_EQ(changes[3].at("userSha256"), sha256_hex("Some Body").substr(0, 8));
  EXPECT_EQ(changes[3].at("id"), "");
  EXPECT_EQ(changes[5].at("id"), "rival");
  EXPECT_EQ(changes[5].at("userSha256"), "");
  const std::vector<json> refused = lines_with(log, "a key was refused");
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_EQ(refused[0].at("key"), "decide of sho");
  EXPECT_EQ(refused[0].at("reason"), "not allowed");
  EXPECT_EQ(refused[1].at("key"), "");
  EXPECT_EQ(refused[1].at("reason"), "unknown");
  EXPECT_EQ(refused[1].at("sha256"), sha256_hex("a-guess").substr(0, 8));
  for (const char* secret : {"secret", "a-guess", "Some"}) {
    EXPECT_EQ(log.find(secret), std::string::npos) << secret;
  }
  // The file has the same lines, and no others.
  const std::string lines = file_contents(audit);
  EXPECT_EQ(lines_with(lines, "a change").size(), 6U);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 8);
  struct stat file {};
  ASSERT_EQ(::stat(audit.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
}

TEST(Trust, WhoTriesKeysIsThrottledAndWhoHasOneGoesOn) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml", key_lines("read", "good") + key_lines("read", "late"));
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string(),
                                         "--trusted-proxies", "127.0.0.9"});
  const std::uint16_t port = server.port();
  HttpClient good(port, "good");
  EXPECT_EQ(good.get("/v1/models").status, 200);
  HttpReply last;
  for (int i = 0; i < 30; ++i) {
    HttpClient guess(port, "guess-" + std::to_string(i));
    last = guess.get("/v1/models");
    EXPECT_EQ(last.status, i < 10 ? 401 : 429) << i;
  }
  EXPECT_EQ(code_of(last), "too_many_wrong_keys");
  EXPECT_NE(last.head.find("Retry-After: "), std::string::npos);
  HttpClient right_guess(port, "late");
  EXPECT_EQ(right_guess.get("/v1/models").status, 429)
      << "a guess gains nothing even if it is right";
  EXPECT_EQ(good.get("/v1/models").status, 200);
  const auto from_elsewhere = [&](const std::string& forwarded, const std::string& key) {
    RawConnection client(port, {.from = "127.0.0.9"});
    client.send("GET /v1/models HTTP/1.1\r\nHost: any\r\nX-API-Key: " + key +
                "\r\nX-Forwarded-For: " + forwarded + "\r\n\r\n");
    return status_in(client.receive(10.0, "\r\n\r\n"));
  };
  EXPECT_EQ(from_elsewhere("10.1.1.1", "late"), 200) << "another address";
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(from_elsewhere("10.1.1.2", "guess"), i < 10 ? 401 : 429) << "the client of the proxy";
  }
  EXPECT_EQ(from_elsewhere("10.1.1.1", "guess"), 401);
  // The log has a bounded number of lines about it.
  EXPECT_EQ(lines_with(server.program().errors_so_far(), "a key was refused").size(), 21U);
}

TEST(Trust, KeysAreReadAgainAtSighupAndOnRequest) {
  const TemporaryFolder folder;
  const auto config = folder / "config.toml";
  put_file(config, key_lines("admin", "first"));
  ServerProgram server(folder / "data", {"--config", config.string()});
  HttpClient first(server.port(), "first");
  HttpClient second(server.port(), "second");
  EXPECT_EQ(first.get("/v1/models").status, 200);
  EXPECT_EQ(second.get("/v1/models").status, 401);
  put_file(config, key_lines("admin", "second"));
  server.program().signal(SIGHUP);
  wait_for(server, "reloaded", 1);
  EXPECT_EQ(first.get("/v1/models").status, 401);
  EXPECT_EQ(second.get("/v1/models").status, 200);
  // A file that is wrong changes nothing.
  put_file(config, key_lines("admin", "first") + "[[keys]]\nname = \"x\"\nsha256 = \"short\"\n");
  server.program().signal(SIGHUP);
  const json failed = wait_for(server, "reloading failed; everything stays as it was", 1).front();
  EXPECT_NE(failed.at("detail").get<std::string>().find("key \"x\": sha256"), std::string::npos);
  const HttpReply refused = second.post("/v1/reload", "");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(code_of(refused), "bad_configuration");
  EXPECT_NE(refused.body.find("sha256: expected 64"), std::string::npos) << refused.body;
  put_file(config, "queue = \n");
  EXPECT_EQ(second.post("/v1/reload", "").status, 409);
  EXPECT_EQ(first.get("/v1/models").status, 401);
  put_file(config, "");  // as an editor may leave it for a moment
  const HttpReply open = second.post("/v1/reload", "");
  EXPECT_EQ(open.status, 409);
  EXPECT_NE(open.body.find("the last ones cannot go"), std::string::npos) << open.body;
  EXPECT_EQ(HttpClient(server.port()).get("/v1/models").status, 401);
  // On request; other options wait, and the log says so.
  put_file(config, "queue = 77\n" + key_lines("admin", "first") + key_lines("admin", "second"));
  const HttpReply reloaded = second.post("/v1/reload", "");
  EXPECT_EQ(reloaded.body, R"({"keys":2,"tls":false})");
  EXPECT_EQ(wait_for(server, "a changed option waits for the next start", 1).front().at("option"),
            "queue");
  EXPECT_EQ(first.get("/v1/models").status, 200);
  // Who removes its own key is still named.
  put_file(config, key_lines("admin", "first"));
  EXPECT_EQ(second.post("/v1/reload", "").status, 200);
  EXPECT_EQ(lines_with(server.program().errors_so_far(), "a change").back().at("key"),
            "admin of sec");
  EXPECT_EQ(server.stop().status, 0);
}

TEST(Trust, ASighupThatComesDuringTheStartIsObeyedAfterIt) {
  const TemporaryFolder folder;
  const auto config = folder / "config.toml";
  put_file(config, key_lines("admin", "first"));
  ServerProgram server(folder / "data", {"--config", config.string()});
  wait_for(server, "recovered", 1);  // the default model is not made yet
  put_file(config, key_lines("admin", "second"));
  server.program().signal(SIGHUP);
  wait_for(server, "reloaded", 1);
  EXPECT_EQ(HttpClient(server.port(), "second").get("/v1/models").status, 200);
}

TEST(Trust, CertificatesAreReadAgainAndBadOnesAreNotUsed) {
  const TemporaryFolder folder;
  const PemFiles files = make_certificate(folder, "one");
  const PemFiles next = make_certificate(folder, "two");
  ServerProgram server(folder / "data",
                       {"--certificate", files.certificate, "--private-key", files.private_key});
  const std::uint16_t port = server.port();
  RawConnection before(port, {.tls = true});
  EXPECT_EQ(before.subject(), "one");
  // Only one of the two files is new: they do not belong together.
  put_file(files.certificate, file_contents(next.certificate));
  server.program().signal(SIGHUP);
  const json failed = wait_for(server, "reloading failed; everything stays as it was", 1).front();
  EXPECT_NE(failed.at("detail").get<std::string>().find("does not belong to the certificate"),
            std::string::npos)
      << failed;
  EXPECT_EQ(RawConnection(port, {.tls = true}).subject(), "one");
  put_file(files.private_key, file_contents(next.private_key));
  server.program().signal(SIGHUP);
  wait_for(server, "reloaded", 1);
  EXPECT_EQ(RawConnection(port, {.tls = true}).subject(), "two");
  before.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(status_in(before.receive(10.0, "alive\"}")), 200) << "open connections go on";
  // Nothing of all that lets older versions of TLS in.
  EXPECT_TRUE(RawConnection(port, {.tls = true, .newest_tls = TLS1_2_VERSION}).connected());
  EXPECT_FALSE(RawConnection(port, {.tls = true, .newest_tls = TLS1_1_VERSION}).connected());
}

TEST(Trust, PemFilesThatAreWrongAreNamedForWhatTheyAre) {
  const TemporaryFolder folder;
  const PemFiles files = make_certificate(folder, "one");
  const PemFiles other = make_certificate(folder, "two");
  put_file(folder / "text", "hello");
  const auto refusal = [&](const std::string& certificate, const std::string& key) {
    const ProgramOutcome outcome =
        run_program({"serve", "--data", (folder / "data").string(), "--port", "0", "--certificate",
                     certificate, "--private-key", key});
    EXPECT_EQ(outcome.status, 2) << outcome.errors;
    return outcome.errors;
  };
  const auto says = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  says(refusal(files.private_key, files.certificate), "certificate and private_key are swapped");
  says(refusal(files.certificate, files.certificate), "but it is a certificate");
  says(refusal(files.private_key, files.private_key), "but it is a private key");
  says(refusal(files.certificate, other.private_key), "does not belong to the certificate");
  says(refusal((folder / "text").string(), files.private_key), "expected a certificate in PEM");
  says(refusal((folder / "none").string(), files.private_key), "No such file");
  says(refusal(files.certificate, ""), "TLS needs both");
  // A key that everybody can read works, but the log says so.
  for (const mode_t mode : {0600, 0604}) {
    ::chmod(files.private_key.c_str(), mode);
    ServerProgram server(folder / "data",
                         {"--certificate", files.certificate, "--private-key", files.private_key});
    server.port();
    EXPECT_EQ(server.stop().errors.find("other users of this machine can read the private key") !=
                  std::string::npos,
              mode == 0604);
  }
}

TEST(Trust, AnActivationThatComesTooLateIsToldSo) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml", "[models.m]\nwaitingSeconds = 0.3\n[models.slow]\n");
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  HttpClient http(server.port());
  const auto decide = [&](const std::string& model, const std::string& event, bool deferred) {
    EXPECT_EQ(http.post("/v1/models/" + model + "/rank",
                        R"({"eventId":")" + event + R"(","deferActivation":)" +
                            (deferred ? "true," : "false,") + kRank.substr(1))
                  .status,
              200);
  };
  const auto activate = [&](const std::string& model, const std::string& event) {
    return http.post("/v1/models/" + model + "/events/" + event + "/activate", "");
  };
  decide("m", "late", true);
  decide("m", "at-once", false);
  while (json::parse(http.get("/v1/models/m/events/at-once").body).at("waiting").get<bool>()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const HttpReply late = activate("m", "late");
  EXPECT_EQ(late.status, 410);
  EXPECT_EQ(code_of(late), "event_ended");
  EXPECT_EQ(activate("m", "at-once").status, 204) << "it never had to be activated";
  // Sent again after the event was learned: it was done.
  decide("slow", "in-time", true);
  EXPECT_EQ(activate("slow", "in-time").status, 204);
  EXPECT_EQ(http.post("/v1/models/slow/events/in-time/reward", R"({"value":1})").body,
            R"({"outcome":"learned"})");
  EXPECT_EQ(activate("slow", "in-time").status, 204);
  EXPECT_EQ(activate("slow", "nobody").status, 404);
}

TEST(Trust, ModelsFollowTheSettingsOfTheConfigurationAndOtherOptionsAreCompared) {
  const TemporaryFolder folder;
  const auto config = folder / "config.toml";
  const auto model = [&](const std::string& lines) {
    put_file(config, lines);
    ServerProgram server(folder / "data", {"--config", config.string()});
    HttpClient http(server.port());
    const json shown = json::parse(http.get("/v1/models/m").body);
    return std::pair(shown, server.stop().errors);
  };
  const std::string base = "[models.m]\npolicy = \"mcnb\"\ndimension = 8\n";
  model(base + "epsilon = 0.2\nwaitingSeconds = 5\n[models.m.options]\ngamma = 0.3\n");
  // The same, written differently.
  const auto [same, quiet] = model(base + "epsilon = 0.20\n[models.m.options]\ngamma = 0.30\n");
  EXPECT_EQ(same.at("epsilon"), 0.2);
  EXPECT_EQ(same.at("waitingSeconds"), 5) << "what the file does not name stays";
  EXPECT_EQ(quiet.find("configuration"), std::string::npos) << quiet;
  const auto [changed, log] = model(
      "[models.m]\npolicy = \"mcnb\"\ndimension = 16\nepsilon = 0.5\nmode = \"apprentice\"\n"
      "[models.m.options]\ngamma = 0.4\n");
  EXPECT_EQ(changed.at("epsilon"), 0.5);
  EXPECT_EQ(changed.at("mode"), "apprentice");
  EXPECT_EQ(changed.at("dimension"), 8);
  const std::vector<json> applied =
      lines_with(log, "a setting was changed as the configuration says");
  ASSERT_EQ(applied.size(), 2U);
  EXPECT_EQ(applied[0].at("setting"), "epsilon");
  EXPECT_EQ(applied[0].at("from"), "0.2");
  EXPECT_EQ(applied[0].at("to"), "0.5");
  std::vector<json> fixed;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (json::parse(line).contains("configuration says")) {
      fixed.push_back(json::parse(line));
    }
  }
  ASSERT_EQ(fixed.size(), 2U);
  EXPECT_EQ(fixed[0].at("level"), "warning");
  EXPECT_EQ(fixed[0].at("option"), "dimension");
  EXPECT_EQ(fixed[0].at("model has"), "8");
  EXPECT_EQ(fixed[0].at("configuration says"), "16");
  EXPECT_EQ(fixed[1].at("option"), "options.gamma");
  // The changes are events of the log: they are still there without the configuration.
  put_file(config, "");
  ServerProgram server(folder / "data", {"--config", config.string()});
  HttpClient http(server.port());
  EXPECT_EQ(json::parse(http.get("/v1/models/m").body).at("epsilon"), 0.5);
}

}  // namespace
}  // namespace mcnb::trust_test
