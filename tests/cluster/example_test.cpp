// The script of docs/SCALING.md: a database with its standby, two nodes and HAProxy.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/serve/server_program.h"
#include "tests/serve/service_load.h"

namespace mcnb::cluster_example_test {
namespace {

using service_load::json;

// The first of three ports that are free now.
std::uint16_t free_ports() {
  for (;;) {
    std::array<int, 3> sockets{};
    std::uint16_t first = 0;
    bool all = true;
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      sockets[i] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(i == 0 ? 0 : static_cast<std::uint16_t>(first + i));
      socklen_t size = sizeof address;
      all = all && ::bind(sockets[i], reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
            ::getsockname(sockets[i], reinterpret_cast<sockaddr*>(&address), &size) == 0;
      first = i == 0 ? ntohs(address.sin_port) : first;
    }
    for (const int socket : sockets) {
      ::close(socket);
    }
    if (all && first < 65530) {
      return first;
    }
  }
}

TEST(ClusterExample, TheScriptStartsAClusterThatServes) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));  // for PostgreSQL
  const std::uint16_t port = free_ports();
  Program script({folder / "cluster", std::to_string(port)}, {std::string("MCNB=") + MCNB_BINARY},
                 std::string(MCNB_SOURCE_DIR) + "/examples/cluster/start");
  while (script.errors_so_far().find("is ready") == std::string::npos) {
    ASSERT_TRUE(script.is_running()) << script.errors_so_far();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto ask = [&](const std::string& path, std::vector<std::string> more) {
    more.insert(more.begin(), {"-sS", "http://127.0.0.1:" + std::to_string(port) + path});
    return Program(std::move(more), {}, "/usr/bin/curl").wait().output;
  };
  const std::string request =
      R"({"eventId":"e","userId":"ann","actions":[{"id":"tea","features":{"hot":true}}]})";
  const std::string first = ask("/v1/models/default/rank", {"--json", request});
  EXPECT_NE(first.find("\"rewardActionId\":\"tea\""), std::string::npos) << first;
  // Either node gives the same answer.
  for (const int node : {1, 2}) {
    HttpClient direct(static_cast<std::uint16_t>(port + node));
    EXPECT_EQ(direct.post("/v1/models/default/rank", request).body, first);
  }
  json nodes;
  do {
    nodes = json::parse(ask("/v1/nodes", {})).at("nodes");
  } while (nodes.size() < 2);
  EXPECT_EQ(std::ranges::count_if(nodes, [](const json& node) { return node.at("owner") == true; }),
            1);
  // The dashboard has the figures of the owner from either; only the owner has a stream.
  for (const json& node : nodes) {
    const std::string address = node.at("address");
    const int at = std::stoi(address.substr(address.rfind(':') + 1));
    HttpClient direct(static_cast<std::uint16_t>(at));
    json totals;
    do {
      const json series = json::parse(direct.get("/v1/series?resolution=10s").body);
      totals = series.at("models").at(0).at("totals");
    } while (totals.at("decisions") != 1);  // figures of models are up to a second old
    if (node.at("owner") == false) {
      const HttpReply refused = direct.get("/v1/live");
      EXPECT_EQ(refused.status, 503);
      EXPECT_NE(refused.body.find("not_owner"), std::string::npos) << refused.body;
    }
  }
  script.interrupt();
  EXPECT_EQ(script.wait().status, 0);
}

}  // namespace
}  // namespace mcnb::cluster_example_test
