#include "mcnb/base/error.h"
#include "tests/serve/power/recorded_service.h"

namespace mcnb::power {
namespace {

using namespace cases;

constexpr std::uint64_t kClients = 3;

class ThreadedService {
 public:
  ThreadedService(const std::filesystem::path& folder)
      : recorder_(folder), running_(folder / RecordedService::kData) {
    running_.create("m", small_model());
    promises_.lives.push_back({"m", recorder_.count(), 0});
    promises_.trims = false;
  }

  ThreadedLife live(std::uint64_t rounds) {
    std::vector<std::thread> clients;
    for (std::uint64_t client = 0; client < kClients; ++client) {
      clients.emplace_back([this, client, rounds] {
        for (std::uint64_t i = 0; i < rounds; ++i) {
          decide_and_reward(100'000 + i * 10 + client, "stays-" + std::to_string(client) + "-");
        }
      });
    }
    for (std::uint64_t i = 0; i < rounds / 4; ++i) {
      forget(i);
      static_cast<void>(running_.snapshot());
      back_up(i);
    }
    for (std::thread& client : clients) {
      client.join();
    }
    recorder_.end();
    return {recorder_.recording(), promises_};
  }

 private:
  void decide_and_reward(std::uint64_t event, const std::string& user) {
    {
      const std::lock_guard lock(mutex_);
      ++promises_.asked[recorder_.count()];
    }
    const RankRequest request = recorded_request(event, user);
    const auto rank = running_.rank(request);
    ASSERT_FALSE(rank->error) << rank->error->message;
    {
      const std::lock_guard lock(mutex_);
      promises_.decisions.push_back(
          {recorder_.count(), 0, request.event_id, user, encode_event(rank->decision), kAnywhere});
    }
    const auto reward = running_.reward(request.event_id, 1.0F);
    ASSERT_FALSE(reward->error) << reward->error->message;
    const std::lock_guard lock(mutex_);
    promises_.rewards.push_back({recorder_.count(), 0, request.event_id, user, kAnywhere});
  }

  void forget(std::uint64_t number) {
    ForgottenUser user{0, 0, 0, "leaves-" + std::to_string(number) + "-", {}};
    for (std::uint64_t i = 0; i < 3; ++i) {
      user.events.push_back(500'000 + number * 10 + i);
      decide_and_reward(user.events.back(), user.name);
    }
    user.asked = recorder_.count();
    const auto task = running_.forget(user.name);
    ASSERT_FALSE(task->error) << task->error->message;
    user.at = recorder_.count();
    promises_.forgotten.push_back(user);
  }

  void back_up(std::uint64_t number) {
    MadeBackup backup{recorder_.count(), 0, "backup-" + std::to_string(number)};
    const auto task = running_.control([&](ControlTask& own, ModelHost&, std::int64_t) {
      own.follow_up = [&](Storage& storage) { EXPECT_TRUE(storage.back_up(backup.name)); };
    });
    ASSERT_FALSE(task->error) << task->error->message;
    backup.at = recorder_.count();
    promises_.backups.push_back(backup);
  }

  // No row is trimmed here, so every promised one must be there.
  static constexpr std::uint64_t kAnywhere = ~std::uint64_t{0};

  WithoutSyncs without_syncs_;
  FileRecorder recorder_;
  RunningEngine running_;
  std::mutex mutex_;  // guards the promises that clients write
  Promises promises_;
};

}  // namespace

ThreadedLife record_threads(const std::filesystem::path& folder, std::uint64_t rounds) {
  return ThreadedService(folder).live(rounds);
}

}  // namespace mcnb::power
