// The real service, killed at random moments under load. Acknowledged data is kept, each reward is
// learned once, forgotten users are gone, and the log restores the state.

#include <gtest/gtest.h>

#include <atomic>

#include "mcnb/serve/engine/model_host.h"
#include "tests/sanitizers.h"
#include "tests/serve/service_load.h"

namespace mcnb::crash_test {
namespace {

using namespace service_load;

// Of each of the two lives' kinds: 30, or MCNB_KILLS; fewer under the sanitizers.
const int kKills = static_cast<int>(repeats("MCNB_KILLS", kSanitized ? 8 : 30));
const int kBusyKills = static_cast<int>(repeats("MCNB_KILLS", kSanitized ? 4 : 30));
constexpr int kClients = 3;
constexpr int kVerifyEvery = 50;

// Runs a server once: starts it, runs `load` on several clients and kills it in the middle, or
// kills it while it starts. Returns true if it served requests.
bool live_and_die(const fs::path& data, const std::vector<std::string>& arguments,
                  std::uint64_t longest_microseconds, Rng& rng,
                  const std::function<void(std::uint16_t port, int client)>& load) {
  ServerProgram server(data, arguments);
  const bool serves = !rng.chance(0.1);
  if (serves) {
    const std::uint16_t port = server.port();
    std::vector<std::thread> clients;
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] { load(port, client); });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3'000 + rng.below(longest_microseconds)));
    server.kill();
    for (std::thread& client : clients) {
      client.join();
    }
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(30'000)));
  }
  server.kill();
  server.wait();
  return serves;
}

TEST(Crash, NothingAcknowledgedIsLostAndNothingIsLearnedTwice) {
  const TemporaryFolder folder;
  const fs::path data = folder / "data";
  put_file(folder / "config.toml", kSmallModel);
  const std::vector<std::string> arguments{"--config", (folder / "config.toml").string(),
                                           "--threads", "1"};
  Told told;
  Logged logged;
  Rng rng(test_seed() + 6, Stream::kTest);
  int served = 0;
  for (int life = 0; life < kKills; ++life) {
    served +=
        live_and_die(data, arguments, 100'000, rng,
                     [&](std::uint16_t port, int client) { use_service(port, life, client, told); })
            ? 1
            : 0;
    const bool verify = life % kVerifyEvery == kVerifyEvery - 1 || life == kKills - 1;
    if (verify && fs::exists(data / "mcnb.db")) {
      expect_kept(told, logged, data);
      expect_verified(data);
    }
  }
  EXPECT_GT(served, kKills / 2);
  EXPECT_GT(told.decisions.size(), static_cast<std::size_t>(served));
  // Every reward that is in the log was learned, once, and no other.
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = open_data_folder(data, StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  host.recover();
  for (const auto& [event, count] : logged.rewards) {
    EXPECT_EQ(count, 1) << event;
  }
  const ModelReport report = host.report("small");
  EXPECT_EQ(report.counts.learned, logged.rewards.size());
  EXPECT_EQ(report.counts.decisions, logged.decisions.size());
  EXPECT_GT(report.snapshot_position, 0U) << "no snapshot was written";
}

// How often something was requested, and how often it was acknowledged. The count on disk must lie
// between the two.
struct Count {
  std::atomic<std::uint64_t> asked{0};
  std::atomic<std::uint64_t> told{0};

  void expect_between(std::uint64_t on_disk, const char* what) const {
    EXPECT_LE(told, on_disk) << what;
    EXPECT_GE(asked, on_disk) << what;
    EXPECT_GT(told, 0U) << what;
  }
};

struct BusyTold {
  Count decisions;
  Count rewards;
  Count forgotten;
  std::atomic<std::uint64_t> activated{0};
  std::mutex mutex;
  std::vector<std::string> gone;  // users whose forgetting was acknowledged
};

// Everything at once: deferred events, several rewards an event, users who leave, snapshots.
void keep_busy(std::uint16_t port, int life, int client, BusyTold& told) {
  Rng rng(test_seed() + 1, Stream::kTest, static_cast<std::uint64_t>(life),
          static_cast<std::uint32_t>(client));
  HttpClient http(port);
  const std::string path = "/v1/models/busy/";
  try {
    for (int i = 0;; ++i) {
      const std::string name =
          std::to_string(life) + "-" + std::to_string(client) + "-" + std::to_string(i);
      const bool leaves = rng.chance(0.15);
      const std::string user =
          leaves ? "leaver-" + name + "." : "user-" + std::to_string(rng.below(9));
      // Long names fill the log sooner.
      json request = rank_request(name, user, rng, 15, std::string(250, 'a'));
      request["deferActivation"] = rng.chance(0.5);
      ++told.decisions.asked;
      const HttpReply reply = http.post(path + "rank", request.dump());
      ASSERT_EQ(reply.status, 200) << reply.body;
      ++told.decisions.told;
      for (int k = 0; k < 2 && rng.chance(0.7); ++k) {
        ++told.rewards.asked;
        const HttpReply rewarded =
            http.post(path + "events/" + name + "/reward",
                      R"({"value": 0.3, "rewardId": "r)" + std::to_string(k) + "\"}");
        ASSERT_EQ(rewarded.status, 200) << rewarded.body;
        told.rewards.told += json::parse(rewarded.body).at("outcome") == "waiting" ? 1 : 0;
      }
      if (rng.chance(0.5)) {
        told.activated += http.post(path + "events/" + name + "/activate", "").status == 204;
      }
      if (leaves) {
        ++told.forgotten.asked;
        const HttpReply gone = http.send("DELETE", path + "users/" + user, "");
        ASSERT_TRUE(gone.status == 204 || gone.status == 503) << gone.body;
        if (gone.status == 204) {
          ++told.forgotten.told;
          const std::lock_guard lock(told.mutex);
          told.gone.push_back(user);
        }
      }
      if (rng.chance(0.1)) {
        static_cast<void>(http.post(path + "snapshot", ""));
      }
    }
  } catch (const ConnectionLost&) {
  }
}

constexpr std::uint32_t kBusyModel = 1;  // id: models of the configuration are made by name

// The first position that a model's log still has.
std::uint64_t first_position(const fs::path& data, std::uint32_t model) {
  SqliteLogStore store(data, SqliteLogStore::Access::kReadOnly);
  std::uint64_t first = 0;
  store.replay(model, 0, [&](const LogRow& row) { first = first == 0 ? row.position : first; });
  return first;
}

TEST(Crash, ExpiryActivationForgettingAndTrimmingSurviveIt) {
  const TemporaryFolder folder;
  const fs::path data = folder / "data";
  put_file(folder / "config.toml",
           "log_gigabytes = 0.001\n"
           "[models.busy]\ndimension = 4\nwaitingSeconds = 0.03\naggregation = \"sum\"\n"
           "policy = \"hierarchical\"\n"  // with fits beside the requests all the time
           "[models.busy.options]\nfirst_fit = 5\nfit_growth = 1.01\nhalf_life = 100\n"
           "[models.idle]\ndimension = 4\n");
  const std::vector<std::string> arguments{"--config", (folder / "config.toml").string(),
                                           "--threads", "2"};
  BusyTold told;
  Rng rng(test_seed() + 7, Stream::kTest);
  const auto is_trimmed = [&] { return kSanitized || first_position(data, kBusyModel) > 100; };
  // On a busy machine lives may be too short to forget anybody, or to fill the log: more and longer
  // ones follow.
  const auto goes_on = [&](int life) {
    return life < kBusyKills ||
           (life < 2 * kBusyKills && (told.forgotten.told == 0 || !is_trimmed()));
  };
  for (int life = 0; goes_on(life); ++life) {
    const std::uint64_t longest = life < kBusyKills ? 250'000 : 2'000'000;
    live_and_die(data, arguments, longest, rng,
                 [&](std::uint16_t port, int client) { keep_busy(port, life, client, told); });
    if (life % kVerifyEvery == kVerifyEvery - 1 || life == kBusyKills - 1) {
      expect_verified(data);
    }
  }
  {
    // After one more start, every user who was being forgotten at the last kill is forgotten.
    ServerProgram server(data, arguments);
    server.port();
    // The service looks at its log's size once a second.
    for (int i = 0; i < 1000 && !is_trimmed(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(server.stop().status, 0);
  }
  expect_verified(data);
  ThreadPool threads(2);
  const std::unique_ptr<Storage> storage = open_data_folder(data, StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  host.recover();
  const ModelCounts counts = host.report("busy").counts;
  told.decisions.expect_between(counts.decisions, "decisions");
  told.rewards.expect_between(counts.rewards, "rewards");
  told.forgotten.expect_between(counts.forgotten, "forgotten users");
  EXPECT_GT(told.activated, 0U);
  EXPECT_GT(counts.expired, 0U);
  EXPECT_GT(counts.unactivated, 0U);
  EXPECT_GT(host.report("busy").snapshot_position, 0U);
  EXPECT_TRUE(is_trimmed());
  EXPECT_TRUE(storage->log().erasures().empty());
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    const std::string bytes = entry.is_regular_file() ? file_contents(entry.path()) : "";
    for (const std::string& user : told.gone) {
      EXPECT_EQ(bytes.find(user), std::string::npos) << entry.path() << " " << user;
    }
  }
}

}  // namespace
}  // namespace mcnb::crash_test
