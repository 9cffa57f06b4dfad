// The real `mcnb serve` and clients that want to confuse it or to keep others out, with and without
// TLS.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/serve/http/hostile_requests.h"
#include "tests/serve/raw_connection.h"
#include "tests/serve/server_program.h"

namespace mcnb::hostile_clients_test {
namespace {

const std::string kLive = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kRank =
    "POST /v1/models/default/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 37\r\n\r\n{\"userId\":\"u\",\"actions\":[{\"id\":\"a\"}]}";

// A ServerProgram with or without TLS.
class HostileClients : public testing::TestWithParam<bool> {
 protected:
  void start(std::vector<std::string> flags) {
    if (GetParam()) {
      const PemFiles files = make_certificate(folder_, "localhost");
      flags.insert(flags.end(),
                   {"--certificate", files.certificate, "--private-key", files.private_key});
    }
    server_ = std::make_unique<ServerProgram>(folder_ / "data", flags);
    port_ = server_->port();
  }

  std::unique_ptr<RawConnection> connect(const std::string& from = "127.0.0.1") const {
    return std::make_unique<RawConnection>(port_, RawOptions{.tls = GetParam(), .from = from});
  }
  // Connects and sends nothing at all.
  std::unique_ptr<RawConnection> silence(const std::string& from = "127.0.0.1") const {
    return std::make_unique<RawConnection>(port_, RawOptions{.tls = false, .from = from});
  }
  int status_of(const std::string& request, const std::string& from = "127.0.0.1") const {
    const auto client = connect(from);
    client->send(request);
    return status_in(client->receive(10.0, "\r\n\r\n"));
  }

  TemporaryFolder folder_;
  std::unique_ptr<ServerProgram> server_;
  std::uint16_t port_ = 0;
};

TEST_P(HostileClients, RequestsThatProxiesReadDifferentlyAreRefusedAndEndTheConnection) {
  start({});
  for (const HostileRequest& request : hostile_requests()) {
    SCOPED_TRACE(request.name);
    const auto client = connect();
    ASSERT_TRUE(client->connected());
    // What follows must never be taken for a request.
    client->send(request.bytes + kLive);
    const std::string answer = client->receive(10.0);
    EXPECT_TRUE(client->ended());
    EXPECT_EQ(status_in(answer), request.status) << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
    EXPECT_EQ(answer.find("}HTTP/1.1 "), std::string::npos) << answer;
  }
  EXPECT_EQ(status_of(kLive), 200);
}

TEST_P(HostileClients, SoundRequestsAreServedHoweverTheyLookAndAreCutUp) {
  start({});
  for (const HostileRequest& request : sound_requests()) {
    SCOPED_TRACE(request.name);
    EXPECT_EQ(status_of(request.bytes), request.status);
    const auto client = connect();
    for (std::size_t i = 0; i < request.bytes.size(); i += 13) {
      client->send(std::string_view(request.bytes).substr(i, 13));
    }
    std::string answer = client->receive(10.0, "\r\n\r\n");
    if (status_in(answer) == 100) {
      answer = client->receive(10.0, "\r\n\r\n");
    }
    EXPECT_EQ(status_in(answer), request.status);
  }
}

TEST_P(HostileClients, RequestsInOnePieceAreAnsweredInTheirOrder) {
  start({});
  const auto client = connect();
  client->send(kLive + kRank + "HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" +
               "GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = client->receive(10.0);
  EXPECT_TRUE(client->ended());
  const std::size_t alive = all.find(R"({"status":"alive"})");
  const std::size_t ranked = all.find("rewardActionId");
  const std::size_t last = all.find("unknown_path");
  EXPECT_LT(alive, ranked);
  EXPECT_LT(ranked, last);
  EXPECT_NE(last, std::string::npos) << all;
  EXPECT_EQ(all.find(R"({"status":"alive"})", alive + 1), std::string::npos) << "HEAD has no body";
}

TEST_P(HostileClients, ABodyIsAskedForIfTheClientExpectsThat) {
  start({});
  const auto client = connect();
  const std::size_t begin = kRank.find("Content-Length");
  const std::size_t body = kRank.find('{');
  client->send(kRank.substr(0, begin) + "Expect: 100-continue\r\n" +
               kRank.substr(begin, body - begin));
  EXPECT_EQ(client->receive(10.0, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client->send(kRank.substr(body));
  EXPECT_EQ(status_in(client->receive(10.0, "}]")), 200);
  // A client who is refused is not asked for the body.
  const auto refused = connect();
  refused->send(
      "POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 5\r\n\r\n");
  EXPECT_EQ(status_in(refused->receive(10.0, "\r\n\r\n")), 404);
}

TEST_P(HostileClients, SilentConnectionsKeepNobodyOut) {
  start({"--connections", "64", "--connections-per-address", "0", "--reserved-connections", "4"});
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(silence());
  }
  for (const char* path : {"/livez", "/readyz", "/metrics", "/v1/models"}) {
    EXPECT_EQ(status_of(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200)
        << path;
  }
  // Long before the silent ones must end (10 s), their connections serve others.
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  while (status != 200 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) {
    status = status_of(kRank);
  }
  EXPECT_EQ(status, 200);
}

TEST_P(HostileClients, AnotherAddressIsServedAtOnceWhileAllConnectionsAreSilent) {
  start({"--connections", "64", "--connections-per-address", "16"});
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(silence("127.0.0." + std::to_string(10 + i % 20)));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(status_of(kLive, "127.0.0.99"), 200);
    EXPECT_EQ(status_of(kRank, "127.0.0.99"), 200);
  }
}

TEST_P(HostileClients, AnAddressCannotTakeTheConnectionsOfOthers) {
  start({"--connections", "40", "--connections-per-address", "10"});
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(silence("127.0.0.7"));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(status_of(kRank, "127.0.0.8"), 200) << "at once, without a second try";
  }
  // 127.0.0.7 has its share and half of the reserve; its other connections were ended.
  std::size_t ended = 0;
  for (const auto& client : silent) {
    client->receive(0.01);
    ended += client->ended() ? 1 : 0;
  }
  EXPECT_GE(ended, 42U);
}

TEST_P(HostileClients, TrustedProxiesHaveAllTheConnectionsTheyWant) {
  start({"--connections", "40", "--connections-per-address", "5", "--trusted-proxies",
         "127.0.0.9, 10.0.0.0/8"});
  std::vector<std::unique_ptr<RawConnection>> proxy;
  for (int i = 0; i < 20; ++i) {
    proxy.push_back(connect("127.0.0.9"));
    proxy.back()->send(kLive);
    EXPECT_EQ(status_in(proxy.back()->receive(10.0, "alive\"}")), 200) << i;
  }
}

TEST_P(HostileClients, TheReserveServesHealthAndAdministrationOnly) {
  start({"--connections", "2", "--connections-per-address", "0", "--reserved-connections", "8"});
  int live = 0;
  int rank = 0;
  // New connections give way only after a while, so the third one gets the reserve.
  for (int i = 0; i < 50 && (live != 200 || rank != 503); ++i) {
    const auto first = silence();
    const auto second = silence();
    rank = status_of(kRank);
    live = status_of(kLive);
  }
  EXPECT_EQ(live, 200);
  EXPECT_EQ(rank, 503);
}

TEST_P(HostileClients, ClientsWhoDoNotReadTheirResponsesGiveWay) {
  start({"--connections", "4", "--connections-per-address", "0", "--reserved-connections", "0"});
  std::string many;
  for (int i = 0; i < 500; ++i) {
    many += "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  std::vector<std::unique_ptr<RawConnection>> deaf;
  for (int i = 0; i < 4; ++i) {
    deaf.push_back(connect("127.0.0.5"));
    deaf.back()->send(many);  // fits the buffers of the sockets; the responses do not
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(status_of(kRank, "127.0.0.6"), 200);
}

TEST_P(HostileClients, SilentConnectionsEndSoon) {
  start({"--header-seconds", "1"});  // and not after the 60 seconds of `idle_seconds`
  const auto nothing = silence();
  const auto half = connect();
  half->send("GET /livez HT");
  const auto kept = connect();
  kept->send(kLive);
  EXPECT_EQ(status_in(kept->receive(10.0, "alive\"}")), 200);
  nothing->receive(5.0);
  EXPECT_TRUE(nothing->ended());
  half->receive(5.0);
  EXPECT_TRUE(half->ended());
  kept->send(kLive);
  EXPECT_EQ(status_in(kept->receive(10.0, "alive\"}")), 200) << "it is idle between requests";
}

INSTANTIATE_TEST_SUITE_P(All, HostileClients, testing::Bool(),
                         [](const auto& param) { return param.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace mcnb::hostile_clients_test
