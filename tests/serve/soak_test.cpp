// The real service under steady load for an hour: its memory stays where it was.

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "mcnb/base/random.h"
#include "tests/long_tests.h"
#include "tests/sanitizers.h"
#include "tests/serve/service_load.h"

namespace mcnb::soak_test {
namespace {

using namespace service_load;
using Clock = std::chrono::steady_clock;

constexpr int kClients = 4;
constexpr int kUsers = 200;

// How long the load lasts.
std::chrono::seconds duration() { return std::chrono::seconds(repeats("MCNB_SOAK_SECONDS", 0)); }

double resident_megabytes(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      return std::stod(line.substr(6)) / 1024.0;
    }
  }
  return 0.0;
}

// Decisions, rewards that come late or never, users who are forgotten, snapshots.
void use_steadily(std::uint16_t port, int client, const std::atomic<bool>& ends,
                  std::atomic<std::uint64_t>& requests) {
  Rng rng(test_seed(), Stream::kTest, static_cast<std::uint64_t>(client));
  HttpClient http(port);
  std::string late;
  for (std::uint64_t i = 0; !ends; ++i) {
    const std::string model = std::string("/v1/models/") + (i % 2 == 0 ? "first" : "second");
    const std::string event = fmt::format("{}-{}", client, i);
    const std::string user = fmt::format("user-{}", rng.below(kUsers));
    const HttpReply reply = http.post(model + "/rank", rank_request(event, user, rng, 8).dump());
    ASSERT_EQ(reply.status, 200) << reply.body;
    if (rng.chance(0.8)) {
      const std::string& rewarded = rng.chance(0.5) || late.empty() ? event : late;
      const HttpReply said =
          http.post(model + "/events/" + rewarded + "/reward", R"({"value":0.5})");
      ASSERT_TRUE(said.status == 200 || said.status == 404 || said.status == 409 ||
                  said.status == 410)
          << said.body;
      ++requests;
    }
    late = i % 50 == 0 ? event : late;
    if (rng.chance(0.001)) {
      http.send("DELETE", model + "/users/" + user, "");
    }
    if (rng.chance(0.0002)) {
      http.post(model + "/snapshot", "");
    }
    ++requests;
  }
}

// The lowest of each ten looks: what requests take for a moment comes and goes, a leak stays.
std::vector<std::pair<double, double>> lows_of(const std::vector<std::pair<double, double>>& all) {
  std::vector<std::pair<double, double>> lows;
  for (std::size_t i = 0; i + 10 <= all.size(); i += 10) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i);
    lows.push_back(*std::min_element(
        first, first + 10, [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  return lows;
}

// Megabytes per hour, by least squares.
double growth(const std::vector<std::pair<double, double>>& seconds_and_megabytes) {
  double n = 0.0;
  double x = 0.0;
  double y = 0.0;
  double xx = 0.0;
  double xy = 0.0;
  for (const auto& [seconds, megabytes] : seconds_and_megabytes) {
    const double hours = seconds / 3600.0;
    n += 1.0;
    x += hours;
    y += megabytes;
    xx += hours * hours;
    xy += hours * megabytes;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

TEST(Soak, MemoryStaysFlatUnderSteadyLoad) {
  if (kSanitized || duration().count() == 0) {
    GTEST_SKIP() << "it takes an hour: tests/run_long soak, or MCNB_SOAK_SECONDS";
  }
  const TemporaryFolder folder;
  const std::string bounds =
      "dimension = 4\nwaitingSeconds = 5\nremembered = 1000\nmostPending = 20000\n";
  put_file(folder / "config.toml",
           "log_gigabytes = 0.05\n"
           "[models.first]\n" +
               bounds + "[models.first.options]\nhistory_limit = 50\nwidth = 16\n" +
               "[models.second]\npolicy = \"hierarchical\"\n" + bounds +
               "[models.second.options]\nhistory_limit = 50\n");
  ServerProgram server(folder / "data", {"--config", (folder / "config.toml").string()});
  const std::uint16_t port = server.port();
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> requests{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] { use_steadily(port, client, ends, requests); });
  }
  const auto begin = Clock::now();
  std::vector<std::pair<double, double>> line;
  double highest = 0.0;
  while (Clock::now() - begin < duration() && !testing::Test::HasFailure()) {
    std::this_thread::sleep_for(duration() / 120);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double megabytes = resident_megabytes(server.program().id());
    fmt::print(stderr, "soak: {:.0f} s, {} requests, {:.1f} MB\n", seconds, requests.load(),
               megabytes);
    if (seconds > 0.5 * static_cast<double>(duration().count())) {  // histories are full by then
      line.emplace_back(seconds, megabytes);
      highest = std::max(highest, megabytes);
    }
  }
  ends = true;
  for (std::thread& client : clients) {
    client.join();
  }
  const auto lows = lows_of(line);
  ASSERT_GE(lows.size(), 4U);
  const double hours = static_cast<double>(duration().count()) / 3600.0;
  const double grown = growth(lows) * hours;
  fmt::print(stderr, "soak: {} requests; memory {:.1f} MB, {:+.2f} MB by the trend of its lows\n",
             requests.load(), highest, grown);
  EXPECT_LT(grown, 0.03 * highest);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace mcnb::soak_test
