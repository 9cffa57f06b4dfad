// Clients take turns on the server's thread.

#include "mcnb/serve/http/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mcnb/serve/http/http_server.h"
#include "tests/serve/raw_connection.h"

namespace mcnb::turns_test {
namespace {

ClientAddress address(const std::string& text) { return *ClientAddress::parse(text); }

TEST(Turns, GoRoundTheClientsAndKeepTheOrderOfEach) {
  Turns turns;
  for (ConnectionLimits::Id id = 1; id <= 3; ++id) {
    turns.add(address("10.0.0.1"), {id, false});
  }
  turns.add(address("10.0.0.2"), {10, false});
  turns.add(address("10.0.0.1"), {1, false});  // waits already
  turns.add(address("10.0.0.1"), {1, true});
  std::vector<ConnectionLimits::Id> order;
  while (const auto turn = turns.next()) {
    order.push_back(turn->id);
    if (turn->id == 10 && order.size() < 3) {
      turns.add(address("10.0.0.2"), {10, false});
    }
  }
  EXPECT_EQ(order, (std::vector<ConnectionLimits::Id>{1, 10, 2, 10, 3, 1}));
  EXPECT_TRUE(turns.empty());
}

// The first request holds the server's thread until all others have come.
TEST(Turns, OneClientsManyRequestsHoldUpAnothersForOnlyOne) {
  std::promise<void> begun;
  std::promise<void> go;
  std::mutex mutex;  // guards the paths
  std::vector<std::string> paths;
  const auto plan = [&](const HttpRequest& request) {
    if (request.path == "/hold") {
      begun.set_value();
      go.get_future().wait();
    }
    const std::lock_guard lock(mutex);
    paths.push_back(request.path);
    return HttpPlan{{}, [] { return HttpResponse{}; }};
  };
  RequestMetrics metrics;
  HttpOptions options;
  options.port = 0;
  HttpServer server(options, nullptr,
                    {.admit = [](const HttpRequest&) { return std::nullopt; }, .plan = plan},
                    metrics);
  const auto ask = [](RawConnection& connection, const std::string& path) {
    connection.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  };
  std::vector<std::unique_ptr<RawConnection>> greedy;
  for (int i = 0; i < 20; ++i) {
    greedy.push_back(std::make_unique<RawConnection>(server.port()));
  }
  RawConnection modest(server.port(), {.from = "127.0.0.2"});
  for (const auto& connection : greedy) {  // the server has accepted all of them
    ask(*connection, "/first");
    ASSERT_EQ(status_in(connection->receive(10.0, "\r\n\r\n")), 200);
  }
  ask(modest, "/first");
  ASSERT_EQ(status_in(modest.receive(10.0, "\r\n\r\n")), 200);
  ask(*greedy.front(), "/hold");
  begun.get_future().wait();
  for (std::size_t i = 1; i < greedy.size(); ++i) {
    ask(*greedy[i], "/greedy");
  }
  ask(modest, "/modest");
  go.set_value();
  EXPECT_EQ(status_in(modest.receive(10.0, "\r\n\r\n")), 200);
  for (const auto& connection : greedy) {
    EXPECT_EQ(status_in(connection->receive(10.0, "\r\n\r\n")), 200);
  }
  const std::lock_guard lock(mutex);
  const auto modest_one = std::ranges::find(paths, "/modest");
  ASSERT_NE(modest_one, paths.end());
  EXPECT_LE(std::count(paths.begin(), modest_one, "/greedy"), 1);
  EXPECT_EQ(std::ranges::count(paths, "/greedy"), 19);
}

}  // namespace
}  // namespace mcnb::turns_test
