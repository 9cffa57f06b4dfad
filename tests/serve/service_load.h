#pragma once

// Clients that use a model named "small" of a real service, remember what they were told, and
// compare it with the log.

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "mcnb/base/random.h"
#include "mcnb/serve/server.h"
#include "mcnb/serve/store/sqlite_log_store.h"
#include "mcnb/storage/postgres.h"
#include "tests/long_tests.h"
#include "tests/serve/server_program.h"

namespace mcnb::service_load {

using nlohmann::json;
namespace fs = std::filesystem;

inline constexpr const char* kSmallModel =
    "[models.small]\ndimension = 4\nwaitingSeconds = 1000000\n"
    "[models.small.options]\nwidth = 8\nmeta_steps = 2\n";

inline json rank_request(const std::string& event, const std::string& user, Rng& rng, int count = 3,
                         const std::string& action = "a") {
  json actions = json::array();
  for (int i = 0; i < count; ++i) {
    actions.push_back({{"id", action + std::to_string(i)},
                       {"features", {rng.normal(), rng.normal(), rng.normal(), rng.normal()}}});
  }
  return {{"eventId", event}, {"userId", user}, {"actions", actions}};
}

// `store`: a data folder or the URL of a PostgreSQL store.
inline void expect_verified(const std::string& store) {
  const Verification states = verify_data(store, 1);
  for (const std::string& line : states.lines) {
    ASSERT_TRUE(states.agree) << line;
  }
}

// What the clients were told. Shared by them.
struct Told {
  std::mutex mutex;
  std::map<std::string, std::string> decisions;  // event -> answer
  std::set<std::string> rewarded;                // events whose reward was taken
  std::set<std::string> open;  // events whose reward may or may not have been taken
};

// Decides and rewards until the server is gone. Sends rewards of earlier lives again. `may_fail`:
// the server may answer that its disk failed.
inline void use_service(std::uint16_t port, int life, int client, Told& told,
                        bool may_fail = false) {
  Rng rng(test_seed(), Stream::kTest, static_cast<std::uint64_t>(life),
          static_cast<std::uint32_t>(client));
  HttpClient http(port);
  try {
    for (int i = 0;; ++i) {
      const std::string event =
          std::to_string(life) + "-" + std::to_string(client) + "-" + std::to_string(i);
      const std::string user = "user-" + std::to_string(rng.below(20));
      const HttpReply reply =
          http.post("/v1/models/small/rank", rank_request(event, user, rng).dump());
      if (may_fail && reply.status == 503) {
        continue;
      }
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
      if (may_fail && rewarded.status == 503) {
        continue;
      }
      ASSERT_EQ(rewarded.status, 200) << rewarded.body;
      const std::string outcome = json::parse(rewarded.body).at("outcome");
      ASSERT_TRUE(outcome == "learned" || outcome == "duplicate") << outcome;
      {
        const std::lock_guard lock(told.mutex);
        told.rewarded.insert(to_reward);
        told.open.erase(to_reward);
      }
      if (rng.chance(0.1)) {
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
  static constexpr std::uint32_t kModel = 1;  // the only one

  void read(const std::string& store) {
    const std::unique_ptr<Storage> storage =
        open_storage(store, is_postgres_url(store) ? StorageAccess::kLook : StorageAccess::kOwn);
    storage->log().replay(kModel, last, [&](const LogRow& row) {
      const Event event = decode_event(row.kind, row.body, 4, "test");
      if (const auto* decision = std::get_if<Decision>(&event)) {
        EXPECT_TRUE(
            decisions.emplace(decision->event_id, decision->actions[decision->chosen].id).second);
      } else if (const auto* reward = std::get_if<Reward>(&event)) {
        ++rewards[reward->event_id];
      }
      last = row.position;
    });
  }
};

// Compares the log with what the clients were told.
inline void expect_kept(const Told& told, Logged& logged, const std::string& store) {
  logged.read(store);
  for (const auto& [event, answer] : told.decisions) {
    ASSERT_EQ(logged.decisions[event], answer) << event;
  }
  for (const std::string& event : told.rewarded) {
    ASSERT_EQ(logged.rewards[event], 1) << event;
  }
}

}  // namespace mcnb::service_load
