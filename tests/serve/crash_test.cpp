// The real service, killed at random moments under load: what was acknowledged is there, rewards
// are learned once, and the log gives the state again.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "mcnb/base/random.h"
#include "mcnb/serve/model_host.h"
#include "mcnb/serve/server.h"
#include "tests/serve/serving.h"

namespace mcnb::crash_test {
namespace {

using nlohmann::json;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kKills = 20;
#else
constexpr int kKills = 200;
#endif
constexpr int kClients = 3;
constexpr int kVerifyEvery = 25;

// What the clients were told. Shared by them.
struct Told {
  std::mutex mutex;
  std::map<std::string, std::string> decisions;  // event -> answer
  std::set<std::string> rewarded;                // events whose reward was taken
  std::set<std::string> open;  // events whose reward may or may not have been taken
};

std::string rank_body(const std::string& event, Rng& rng) {
  json actions = json::array();
  for (int i = 0; i < 3; ++i) {
    actions.push_back({{"id", "a" + std::to_string(i)},
                       {"features", {rng.normal(), rng.normal(), rng.normal(), rng.normal()}}});
  }
  return json({{"eventId", event},
               {"userId", "user-" + std::to_string(rng.below(20))},
               {"actions", actions}})
      .dump();
}

// Decides and rewards until the server is gone. Rewards of earlier lives are sent again.
void use_service(std::uint16_t port, int life, int client, Told& told) {
  Rng rng(1, Stream::kTest, static_cast<std::uint64_t>(life), static_cast<std::uint32_t>(client));
  HttpClient http(port);
  try {
    for (int i = 0;; ++i) {
      const std::string event =
          std::to_string(life) + "-" + std::to_string(client) + "-" + std::to_string(i);
      const HttpReply reply = http.post("/v1/models/small/rank", rank_body(event, rng));
      ASSERT_EQ(reply.status, 200) << reply.body;
      std::string to_reward = event;
      {
        const std::lock_guard lock(told.mutex);
        told.decisions[event] = json::parse(reply.body).at("rewardActionId");
        if (!told.open.empty() && rng.chance(0.5)) {
          to_reward = *told.open.begin();
        }
        told.open.insert(to_reward);
      }
      if (rng.chance(0.2)) {
        continue;  // its reward comes in another life
      }
      const HttpReply rewarded = http.post("/v1/models/small/events/" + to_reward + "/reward",
                                           R"({"value": 0.5, "rewardId": "once"})");
      ASSERT_EQ(rewarded.status, 200) << rewarded.body;
      const std::string outcome = json::parse(rewarded.body).at("outcome");
      ASSERT_TRUE(outcome == "learned" || outcome == "duplicate") << outcome;
      const std::lock_guard lock(told.mutex);
      told.rewarded.insert(to_reward);
      told.open.erase(to_reward);
      if (i % 20 == 19 && client == 0) {
        static_cast<void>(http.post("/v1/models/small/snapshot", ""));
      }
    }
  } catch (const ConnectionLost&) {
  }
}

// What the log says, row by row.
struct Logged {
  std::map<std::string, std::string> decisions;
  std::map<std::string, int> rewards;
  std::uint64_t last = 0;

  void read(const std::filesystem::path& folder) {
    LogStore store(folder, LogStore::Access::kReadWrite);
    store.read_after(last, [&](const LogRow& row) {
      const Event event = decode_event(row.kind, row.body, 4, "test");
      if (const auto* decision = std::get_if<Decision>(&event)) {
        EXPECT_TRUE(
            decisions.emplace(decision->event_id, decision->actions[decision->chosen].id).second);
      } else if (const auto* reward = std::get_if<Reward>(&event)) {
        ++rewards[reward->event_id];
      }
      last = row.place;
    });
  }
};

TEST(Crash, NothingAcknowledgedIsLostAndNothingIsLearnedTwice) {
  const TemporaryFolder folder;
  put_file(folder / "config.toml",
           "[models.small]\ndimension = 4\nwaitingSeconds = 1000000\n"
           "[models.small.options]\nwidth = 8\nmeta_steps = 2\n");
  const std::vector<std::string> arguments{"--config", (folder / "config.toml").string(),
                                           "--threads", "1"};
  Told told;
  Logged logged;
  Rng rng(7, Stream::kTest);
  int served = 0;
  for (int life = 0; life < kKills; ++life) {
    {
      Serving server(folder / "data", arguments);
      if (rng.chance(0.1)) {
        // While it starts.
        std::this_thread::sleep_for(std::chrono::microseconds(rng.below(30'000)));
      } else {
        const std::uint16_t port = server.port();
        std::vector<std::thread> clients;
        for (int client = 0; client < kClients; ++client) {
          clients.emplace_back([&, client] { use_service(port, life, client, told); });
        }
        std::this_thread::sleep_for(std::chrono::microseconds(5'000 + rng.below(50'000)));
        server.kill();
        for (std::thread& client : clients) {
          client.join();
        }
        ++served;
      }
      server.kill();
      server.wait();
    }
    if (!std::filesystem::exists(folder / "data" / LogStore::kFileName)) {
      continue;
    }
    const bool verify = life % kVerifyEvery == kVerifyEvery - 1 || life == kKills - 1;
    if (verify) {
      logged.read(folder / "data");
      for (const auto& [event, answer] : told.decisions) {
        ASSERT_EQ(logged.decisions[event], answer) << event;
      }
      for (const std::string& event : told.rewarded) {
        ASSERT_EQ(logged.rewards[event], 1) << event;
      }
      const Verification states = verify_data((folder / "data").string(), 1);
      ASSERT_TRUE(states.agree) << states.lines.front();
    }
  }
  EXPECT_GT(served, kKills / 2);
  EXPECT_GT(told.decisions.size(), static_cast<std::size_t>(served));
  // Every reward that is in the log was learned, once, and no other.
  ThreadPool threads(1);
  ModelHost host(folder / "data", threads);
  LogStore store(folder / "data", LogStore::Access::kReadWrite);
  host.recover(store);
  for (const auto& [event, count] : logged.rewards) {
    EXPECT_EQ(count, 1) << event;
  }
  EXPECT_EQ(host.report("small").counts.learned, logged.rewards.size());
  EXPECT_EQ(host.report("small").counts.decisions, logged.decisions.size());
}

}  // namespace
}  // namespace mcnb::crash_test
