// What a model says it takes, compared with what the allocator and the system have given it.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "tests/sanitizers.h"
#include "tests/serve/model_cases.h"

namespace mcnb::model_memory_test {
namespace {

using namespace cases;

double heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Pages of this process that are in memory, without those that are free again.
double resident_bytes() {
  ::malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  double all = 0.0;
  double resident = 0.0;
  file >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

ModelOptions options_of(const std::string& policy, std::uint64_t dimension) {
  ModelOptions options;
  options.dimension = dimension;
  options.policy = parse_policy(policy);
  bound_histories(options);
  return options;
}

// Every user decides and is rewarded so many times.
void teach(Model& model, std::uint64_t users, std::uint64_t times) {
  const auto dimension = static_cast<std::size_t>(model.options().dimension);
  std::uint64_t position = 0;
  for (std::uint64_t i = 0; i < users * times; ++i) {
    Rng rng(3, Stream::kTest, i);
    RankRequest request;
    request.event_id = "event-" + std::to_string(i);
    request.user_id = "user-" + std::to_string(i % users);
    request.actions = {"a", "b"};
    request.eligible = {true, true};
    for (std::size_t k = 0; k < 2 * dimension; ++k) {
      request.features.push_back(
          static_cast<float>(rng.normal() / std::sqrt(static_cast<double>(dimension))));
    }
    if (model.needs_arrival(request.user_id)) {
      model.apply(Arrival{model.user_key(request.user_id)}, ++position);
    }
    const RankRequest* one = &request;
    model.apply(model.decide({&one, 1}, 1000).front(), ++position);
    model.apply(Reward{request.event_id, "", 1000, static_cast<float>(i % 2)}, ++position);
  }
  model.learn_now();
}

void expect_about(double said, double real, double tolerance) {
  EXPECT_GT(said, real / tolerance) << "said " << said << ", real " << real;
  EXPECT_LT(said, real * tolerance) << "said " << said << ", real " << real;
}

TEST(ModelMemory, IsWhatTheAllocatorHasGiven) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers have an allocator of their own";
  }
  ThreadPool threads(1);
  for (const char* policy : {"hierarchical", "linucb:users=each", "linucb:users=hybrid", "club",
                             "sclub", "locb", "cofiba", "kernelucb:users=each", "epsilon-greedy",
                             "neuucb-ind:width=30", "neural-linear:width=20:train_steps=20"}) {
    for (const std::uint64_t times : {1U, 8U}) {
      SCOPED_TRACE(fmt::format("{}, {} rewards of each user", policy, times));
      const double before = heap_bytes();
      Model model(options_of(policy, 12), threads);
      teach(model, 300, times);
      expect_about(static_cast<double>(model.memory_bytes()), heap_bytes() - before, 1.35);
    }
  }
}

// Networks lie in pages of the system. A model of few users once took two million bytes.
TEST(ModelMemory, OfNetworksIsWhatTheSystemHasGiven) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers have an allocator of their own";
  }
  ThreadPool threads(1);
  const double before = resident_bytes();
  std::vector<std::unique_ptr<Model>> models;
  double said = 0.0;
  for (int i = 0; i < 40; ++i) {
    models.push_back(std::make_unique<Model>(options_of("mcnb:width=100", 20), threads));
    teach(*models.back(), 10, 2);
    said += static_cast<double>(models.back()->memory_bytes());
  }
  const double real = resident_bytes() - before;
  expect_about(said, real, 1.6);
  EXPECT_LT(real / 40, 500'000.0);
  const double between = resident_bytes();
  Model large(options_of("mcnb:width=100", 20), threads);
  teach(large, 600, 2);
  expect_about(static_cast<double>(large.memory_bytes()), resident_bytes() - between, 1.6);
}

// Users who appear and never give feedback. Their waiting events are another matter.
TEST(ModelMemory, UsersWithoutFeedbackCostLittle) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers have an allocator of their own";
  }
  constexpr std::uint64_t kUsers = 100'000;
  constexpr double kMostBytes = 600.0;  // of a user
  ThreadPool threads(1);
  for (const char* policy : {"mcnb:width=100", "hierarchical"}) {
    SCOPED_TRACE(policy);
    const double before = resident_bytes();
    ModelOptions options = options_of(policy, 20);
    options.most_users = kUsers;
    Model model(options, threads);
    for (std::uint64_t i = 0; i < kUsers; ++i) {
      model.apply(Arrival{model.user_key("user-" + std::to_string(i))}, i + 1);
    }
    // A batch of decisions scans all users, in memory that stays taken.
    std::vector<RankRequest> requests(64);
    std::vector<const RankRequest*> batch;
    for (RankRequest& request : requests) {
      request.event_id = "event-" + std::to_string(batch.size());
      request.user_id = "user-" + std::to_string(batch.size());
      request.actions.assign(10, "action");
      request.eligible.assign(10, true);
      request.features.assign(200, 0.1F);
      batch.push_back(&request);
    }
    model.decide(batch, 1000);
    const auto users = static_cast<double>(kUsers);
    EXPECT_LT((resident_bytes() - before) / users, kMostBytes);
    EXPECT_LT(static_cast<double>(model.memory_bytes()) / users, kMostBytes);
    EXPECT_GT(static_cast<double>(model.memory_bytes()) / users, 40.0);
  }
}

}  // namespace
}  // namespace mcnb::model_memory_test
