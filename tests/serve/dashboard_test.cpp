// The endpoints behind the dashboard, of the real `mcnb serve`. The pages themselves are tested in
// a browser (tests/web).

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "mcnb/serve/engine/user_map.h"
#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/http/page.h"
#include "tests/serve/raw_connection.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/server_program.h"

namespace mcnb::dashboard_test {
namespace {

using nlohmann::json;
using namespace cases;

json get(HttpClient& client, const std::string& path, int status = 200) {
  const HttpReply reply = client.get(path);
  EXPECT_EQ(reply.status, status) << path << reply.body;
  return json::parse(reply.body, nullptr, false);
}

json post(HttpClient& client, const std::string& path, const std::string& body, int status) {
  const HttpReply reply = client.post(path, body);
  EXPECT_EQ(reply.status, status) << path << reply.body;
  return json::parse(reply.body, nullptr, false);
}

std::string rank_of(const std::string& event, const std::string& user) {
  return R"({"eventId":")" + event + R"(","userId":")" + user +
         R"(","actions":[{"id":"a","features":{"x":1}},{"id":"b","features":{"y":1}}]})";
}

const std::string kModel =
    R"({"name":"m","policy":"mcnb","dimension":8,"waitingSeconds":1000,"options":{"width":8}})";

TEST(Dashboard, ThePagesAllowOnlyWhatComesFromTheService) {
  const TemporaryFolder folder;
  ServerProgram server(folder.path());
  HttpClient client(server.port());
  for (const char* path : {"/", "/page.js", "/page.css", "/docs", "/docs.js"}) {
    const HttpReply reply = client.get(path);
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.head.find("Content-Security-Policy: default-src 'none'; script-src 'self'"),
              std::string::npos)
        << path;
    EXPECT_EQ(reply.head.find("unsafe"), std::string::npos);
    EXPECT_NE(reply.head.find("X-Content-Type-Options: nosniff"), std::string::npos);
  }
  // No script and no style stands in the pages themselves, and they load nothing from elsewhere.
  for (const std::string_view page : {page_html(), page_docs()}) {
    EXPECT_EQ(page.find("<style"), std::string_view::npos);
    EXPECT_EQ(page.find("://"), std::string_view::npos);
    EXPECT_EQ(page.find(" on"), std::string_view::npos);
  }
  EXPECT_LT(page_html().size() + page_script().size() + page_style().size(), 300'000U);
}

TEST(Dashboard, TryingChangesNothing) {
  const TemporaryFolder folder;
  std::uint64_t before = 0;
  {
    ServerProgram server(folder.path());
    HttpClient client(server.port());
    post(client, "/v1/models", kModel, 201);
    post(client, "/v1/models/m/rank", rank_of("e1", "ann"), 200);
    post(client, "/v1/models/m/events/e1/reward", R"({"value":1})", 200);
    post(client, "/v1/models/m/rank", rank_of("e2", "bob"), 200);  // learns nothing yet
    server.stop();
    before = digest_of(folder.path());
  }
  ServerProgram server(folder.path());
  HttpClient client(server.port());
  const json position = get(client, "/v1/models/m")["lastPosition"];
  for (const char* user : {"ann", "somebody new"}) {
    const json tried = post(client, "/v1/models/m/try", rank_of("tried", user), 200);
    EXPECT_EQ(tried["explain"].size(), 2U);
    EXPECT_EQ(get(client, "/v1/models/m")["lastPosition"], position);
    // The next decision is the one that was shown.
    EXPECT_EQ(post(client, "/v1/models/m/try", rank_of("tried", user), 200), tried);
  }
  get(client, "/v1/models/m/events/tried", 404);
  get(client, "/v1/models/m/users/somebody%20new", 404);
  post(client, "/v1/models/none/try", rank_of("tried", "ann"), 404);
  post(client, "/v1/models/m/try", R"({"userId":"ann","actions":[]})", 400);
  server.stop();
  EXPECT_EQ(digest_of(folder.path()), before);
}

TEST(Dashboard, AnEventTellsWhatFollowedAndAUserHasHisEvents) {
  const TemporaryFolder folder;
  ServerProgram server(folder.path());
  HttpClient client(server.port());
  post(client, "/v1/models", kModel, 201);
  for (int i = 0; i < 60; ++i) {
    const std::string event = "e" + std::to_string(i);
    post(client, "/v1/models/m/rank", rank_of(event, i % 2 == 0 ? "ann" : "bob"), 200);
    post(client, "/v1/models/m/events/" + event + "/reward", R"({"value":0.5,"rewardId":"r"})",
         200);
  }
  const json all = get(client, "/v1/models/m/events")["events"];
  ASSERT_EQ(all.size(), 50U);
  EXPECT_EQ(all[0]["eventId"], "e59");
  const json anns = get(client, "/v1/models/m/users/ann/events")["events"];
  ASSERT_EQ(anns.size(), 30U);
  for (std::size_t i = 0; i < anns.size(); ++i) {
    EXPECT_EQ(anns[i]["eventId"], "e" + std::to_string(58 - 2 * i));
    EXPECT_EQ(anns[i]["userId"], "ann");
    EXPECT_EQ(anns[i]["rewards"].at(0)["value"], 0.5);
  }
  const json behind = get(client, "/v1/models/m/events/e59/behind");
  EXPECT_EQ(behind["clusters"], true);
  EXPECT_EQ(behind["memberCount"], behind["members"].size());
  for (const json& member : behind["members"]) {
    EXPECT_TRUE(member["userId"] == "ann" || member["userId"] == "bob");
  }
  ASSERT_FALSE(behind["samples"].empty());
  for (const json& sample : behind["samples"]) {
    EXPECT_EQ(sample["reward"], 0.5);
    EXPECT_TRUE(sample["eventId"].get<std::string>().starts_with("e"));
  }
  const json event = get(client, "/v1/models/m/events/e3");
  EXPECT_EQ(event["rewards"].size(), 1U);
  EXPECT_EQ(event["rewards"][0]["rewardId"], "r");
  EXPECT_EQ(event["activated"], true);
  EXPECT_EQ(get(client, "/v1/models/m/users/nobody/events")["events"].size(), 0U);
  client.send("DELETE", "/v1/models/m/users/ann", "");
  EXPECT_EQ(get(client, "/v1/models/m/users/ann/events")["events"].size(), 0U);
  const json latest = get(client, "/v1/models/m/events");
  for (const json& one : latest["events"]) {
    EXPECT_EQ(one["userId"], "bob");
  }
}

TEST(Dashboard, SeriesSurviveARestartAndRefuseWhatTheyDoNotKnow) {
  const TemporaryFolder folder;
  {
    ServerProgram server(folder.path());
    HttpClient client(server.port());
    post(client, "/v1/models", kModel, 201);
    post(client, "/v1/models/m/rank", rank_of("e1", "ann"), 200);
    client.send("PATCH", "/v1/models/m", R"({"epsilon":0.25})");
    server.stop();
  }
  ServerProgram server(folder.path());
  HttpClient client(server.port());
  post(client, "/v1/models/m/events/e1/reward", R"({"value":1})", 200);
  const json series = get(client, "/v1/models/m/series?resolution=1d&since=0");
  EXPECT_EQ(series["seconds"], 86400);
  ASSERT_EQ(series["buckets"].size(), 1U);
  EXPECT_EQ(series["buckets"][0]["decisions"], 1);
  EXPECT_EQ(series["buckets"][0]["settled"], 1);
  const json settings = get(client, "/v1/models/m/settings");
  EXPECT_EQ(settings["settings"]["epsilon"], 0.25);
  EXPECT_EQ(settings["changes"].at(0)["settings"], "epsilon = 0.25");
  EXPECT_EQ(get(client, "/v1/models/m/series?resolution=2h", 400)["error"]["field"], "resolution");
  EXPECT_EQ(get(client, "/v1/models/m/series?since=-1", 400)["error"]["field"], "since");
  EXPECT_EQ(get(client, "/v1/models/m/series?sinc=1", 400)["error"]["code"], "unknown_field");
  get(client, "/v1/models/none/series", 404);
}

TEST(Dashboard, AStreamGoesOnUntilItsKeyIsTakenAway) {
  const TemporaryFolder folder;
  const auto keys = [](const std::string& reader) {
    std::string lines;
    for (const auto& [role, key] : {std::pair{"admin", std::string("root")}, {"read", reader}}) {
      lines += std::string("[[keys]]\nname = \"") + role + "\"\nrole = \"" + role +
               "\"\nsha256 = \"" + sha256_hex(key) + "\"\n";
    }
    return lines;
  };
  put_file(folder / "config.toml", keys("reader"));
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  HttpClient admin(server.port(), "root");
  EXPECT_EQ(HttpClient(server.port()).get("/v1/live").status, 401);
  RawConnection stream(server.port());
  stream.send("GET /v1/live HTTP/1.1\r\nHost: localhost\r\nX-API-Key: reader\r\n\r\n");
  std::string text = stream.receive(10.0, "}\n");
  EXPECT_NE(text.find("Transfer-Encoding: chunked"), std::string::npos);
  post(admin, "/v1/models/default/rank", rank_of("e", "ann"), 200);
  for (int lines = 0; lines < 20 && text.find("\"decisions\":1") == std::string::npos; ++lines) {
    text += stream.receive(10.0, "}\n");
  }
  EXPECT_NE(text.find("\"decisions\":1"), std::string::npos);
  put_file(folder / "config.toml", keys("another"));
  post(admin, "/v1/reload", "", 200);
  EXPECT_TRUE((text + stream.receive(10.0)).ends_with("\r\n0\r\n\r\n"));
  EXPECT_TRUE(stream.ended());
}

TEST(Dashboard, StreamsAreLimitedAndGiveTheirSeatsBack) {
  const TemporaryFolder folder;
  ServerProgram server(folder.path());
  const std::string request = "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  HttpClient client(server.port());
  {
    std::vector<std::unique_ptr<RawConnection>> streams;
    for (int i = 0; i < 8; ++i) {
      streams.push_back(std::make_unique<RawConnection>(server.port()));
      streams.back()->send(request);
      EXPECT_NE(streams.back()->receive(10.0, "}\n").find("200 OK"), std::string::npos);
    }
    EXPECT_EQ(client.get("/v1/live").status, 503);
  }
  bool again = false;
  for (int i = 0; i < 100 && !again; ++i) {
    RawConnection stream(server.port());
    stream.send(request);
    again = stream.receive(10.0, "\r\n\r\n").find("200 OK") != std::string::npos;
  }
  EXPECT_TRUE(again);
}

TEST(Dashboard, TheMapPutsUsersOfOneTasteTogether) {
  const TemporaryFolder folder;
  ServerProgram server(folder.path());
  HttpClient client(server.port());
  post(client, "/v1/models", kModel, 201);
  EXPECT_EQ(get(client, "/v1/models/m/map")["learners"].size(), 0U);
  for (int i = 0; i < 120; ++i) {
    const std::string event = "e" + std::to_string(i);
    const int user = i % 12;
    const json answer =
        post(client, "/v1/models/m/rank", rank_of(event, "u" + std::to_string(user)), 200);
    const bool likes = (answer["rewardActionId"] == "a") == (user % 2 == 0);
    post(client, "/v1/models/m/events/" + event + "/reward",
         likes ? R"({"value":1})" : R"({"value":0})", 200);
  }
  const json map = get(client, "/v1/models/m/map");
  ASSERT_EQ(map["learners"].size(), 12U);
  EXPECT_EQ(map["opinions"].get<std::string>().size(), 2 * 12 * map["actions"].size());
  double among = 0.0;
  double between = 0.0;
  const auto distance = [&](std::size_t a, std::size_t b) {
    return std::hypot(map["x"][a].get<double>() - map["x"][b].get<double>(),
                      map["y"][a].get<double>() - map["y"][b].get<double>());
  };
  for (std::size_t a = 0; a < 12; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const std::size_t apart =
          map["learners"][a].get<std::size_t>() - map["learners"][b].get<std::size_t>();
      (apart % 2 == 0 ? among : between) += distance(a, b);
    }
  }
  EXPECT_LT(among / 30.0, between / 36.0);
}

TEST(Dashboard, AUserHasEstimatesOfTheRecentActionsAsADecisionWouldHaveThem) {
  const TemporaryFolder folder;
  ServerProgram server(folder.path());
  HttpClient client(server.port());
  post(client, "/v1/models", kModel, 201);
  get(client, "/v1/models/m/users/ann/estimates", 404);
  for (int i = 0; i < 40; ++i) {
    const std::string event = "e" + std::to_string(i);
    const json answer = post(client, "/v1/models/m/rank", rank_of(event, "ann"), 200);
    post(client, "/v1/models/m/events/" + event + "/reward",
         answer["rewardActionId"] == "a" ? R"({"value":1})" : R"({"value":0})", 200);
  }
  const json position = get(client, "/v1/models/m")["lastPosition"];
  const json estimates = get(client, "/v1/models/m/users/ann/estimates");
  EXPECT_EQ(estimates["userId"], "ann");
  const json tried = post(client, "/v1/models/m/try", rank_of("tried", "ann"), 200);
  const auto by_action = [](const json& explain) {
    std::map<std::string, json> actions;
    for (const json& one : explain) {
      actions[one.at("id")] = one;
    }
    return actions;
  };
  EXPECT_EQ(by_action(estimates["explain"]), by_action(tried["explain"]));
  EXPECT_EQ(estimates["explain"].size(), 2U);
  EXPECT_EQ(estimates["preferredActionId"], "a");
  EXPECT_EQ(get(client, "/v1/models/m")["lastPosition"], position);
  get(client, "/v1/models/none/users/ann/estimates", 404);
}

TEST(Dashboard, TheMapLeavesUsersOutOnlyIfThereAreTooMany) {
  for (const auto& [users, each] : {std::pair<std::size_t, std::uint32_t>{0, 1},
                                    {1, 1},
                                    {kMostMapPoints, 1},
                                    {kMostMapPoints + 1, 2},
                                    {2 * kMostMapPoints, 2},
                                    {2 * kMostMapPoints + 1, 3}}) {
    EXPECT_EQ(users_per_point(users), each) << users;
  }
}

// No direction shows more of what the opinions differ in, and the two are independent.
TEST(Dashboard, TheMapShowsTheDirectionsInWhichOpinionsDifferMost) {
  constexpr std::size_t kPoints = 200;
  constexpr std::size_t kArms = 5;
  UserMap map;
  map.arms.resize(kArms);
  Rng rng(3, Stream::kTest);
  for (std::size_t point = 0; point < kPoints; ++point) {
    map.learners.push_back(static_cast<std::uint32_t>(point));
    const double taste = rng.normal();
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      map.opinions.push_back(
          static_cast<float>(taste * static_cast<double>(arm) + rng.normal() * 0.5));
    }
  }
  project(map);
  const auto variance = [](const std::vector<double>& values) {
    double mean = 0.0;
    double squares = 0.0;
    for (const double value : values) {
      mean += value / static_cast<double>(values.size());
      squares += value * value / static_cast<double>(values.size());
    }
    return squares - mean * mean;
  };
  const std::vector<double> x(map.x.begin(), map.x.end());
  const std::vector<double> y(map.y.begin(), map.y.end());
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> direction;
    double length = 0.0;
    for (std::size_t arm = 0; arm < kArms; ++arm) {
      direction.push_back(rng.normal());
      length += direction.back() * direction.back();
    }
    std::vector<double> seen(kPoints, 0.0);
    for (std::size_t i = 0; i < kPoints * kArms; ++i) {
      seen[i / kArms] += map.opinions[i] * direction[i % kArms] / std::sqrt(length);
    }
    EXPECT_LE(variance(seen), variance(x) * 1.0001);
  }
  std::vector<double> sum(kPoints);
  for (std::size_t i = 0; i < kPoints; ++i) {
    sum[i] = x[i] + y[i];
  }
  EXPECT_NEAR(variance(sum), variance(x) + variance(y), 1e-3);
  EXPECT_LT(variance(y), variance(x));
}

}  // namespace
}  // namespace mcnb::dashboard_test
