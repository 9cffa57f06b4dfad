// Estimates of what a policy will take, compared with what it takes, and scores found in parts.

#include "mcnb/bandit/policy_size.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

#include "mcnb/bandit/policies.h"
#include "tests/bandit/every_policy.h"
#include "tests/sanitizers.h"

namespace mcnb::policy_size_test {
namespace {

using cases::OwnRound;
using cases::World;

constexpr double kFactor = 3.0;           // that estimates are allowed to be off
constexpr double kNegligible = 20'000.0;  // bytes that nobody minds

// Policies of sizes that somebody may ask for. Those with a matrix of their network's parameters
// are narrow.
std::vector<std::string> policies() {
  std::vector<std::string> all{"linucb:users=each",
                               "linucb:users=hybrid",
                               "mcnb:width=100",
                               "mcnb:width=40:depth=4",
                               "mcnb:meta_steps=1",
                               "neuucb-one:width=400",
                               "neuucb-ind:width=100",
                               "neural-linear:width=50",
                               "kernelucb:users=each:history_limit=20",
                               "hierarchical:features=raw",
                               "hierarchical:features=trained:body_units=100",
                               "neuucb-ind:matrix=full:width=10"};
  for (const PolicyHelp& help : policy_help()) {
    // The memory of a kernel grows with the square of its samples.
    all.push_back(help.name + (help.name == "kernelucb" ? ":history_limit=150" : ""));
  }
  return all;
}

// Every user decides and learns once, then `more` times.
std::unique_ptr<Policy> played(const std::string& text, const World& world, ThreadPool& threads,
                               std::size_t more) {
  auto policy = make_policy(parse_policy(text), cases::setup_of(world, threads));
  for (std::uint64_t i = 0; i < world.users * (1 + more); ++i) {
    OwnRound own = cases::draw_round(world, i);
    const UserId user{static_cast<std::uint32_t>(i % world.users)};
    for (Arm& arm : own.round.arms) {
      arm.user = user;
    }
    policy->scores(own.round);
    policy->learn(own.round.id, own.round.arms[0], own.rewards[0]);
  }
  return policy;
}

TEST(PolicySize, IsRightWithinAFactorForEveryPolicy) {
  ThreadPool threads(1);
  for (const std::string& text : policies()) {
    for (const std::uint32_t features : {8U, 40U, 100U}) {
      if (kSanitized && features > 8) {
        continue;  // takes minutes
      }
      for (const std::size_t users : {1U, 60U}) {
        const bool wide = features > 64 && text.find("features=raw") != std::string::npos;
        const bool huge = text == "neuucb-one" || text == "neuralts" || text == "neuau";
        if (wide || (huge && features > 8)) {
          continue;  // refused, or a matrix of gigabytes
        }
        SCOPED_TRACE(fmt::format("{}, {} features, {} users", text, features, users));
        const World world{.features = features, .users = users};
        const PolicySize size = size_of_policy(parse_policy(text), cases::setup_of(world, threads));
        for (const std::size_t more : {0U, 3U}) {
          const auto real = static_cast<double>(played(text, world, threads, more)->memory_bytes());
          const auto count = static_cast<double>(users);
          const double said = size.bytes(count, count, count * static_cast<double>(1 + more));
          EXPECT_LT(said, kFactor * real + kNegligible) << real;
          EXPECT_GT(said, real / kFactor - kNegligible) << real;
        }
      }
    }
  }
}

TEST(PolicySize, OfModelsBeyondTheMachineIsFoundWithoutMakingThem) {
  ThreadPool threads(1);
  const auto bytes = [&](const std::string& text, std::uint32_t inputs) {
    const PolicySetup setup{.inputs = inputs, .threads = &threads};
    return size_of_policy(parse_policy(text), setup).bytes(1, 1, 1);
  };
  EXPECT_GT(bytes("mcnb:width=16384:depth=4", 4096), 1e10);
  EXPECT_GT(bytes("linucb:users=hybrid", 4095), 1.9e8);
  EXPECT_GT(bytes("hierarchical:body_units=4096", 4096), 1e8);
  EXPECT_GT(bytes("neuucb-one:matrix=full:width=200", 90), 2e9);
}

TEST(PolicySize, PartsOfARoundHaveTheScoresOfTheWhole) {
  for (const std::string& text : cases::every_policy()) {
    for (const std::uint32_t features : {5U, 20U}) {
      SCOPED_TRACE(fmt::format("{}, {} features", text, features));
      ThreadPool threads(2);
      const World world{.features = features, .arms = 150};
      const auto policy = cases::make(text, world, threads);
      cases::Session session(world, cases::Arrival::kAtOnce);
      session.play(*policy, 0, 12);
      const std::size_t apart = policy->arms_apart();
      if (apart == 0) {
        continue;
      }
      const OwnRound own = cases::draw_round(world, 1000);
      const std::vector<Score> whole = policy->scores(own.round);
      for (const std::size_t parts : {1U, 2U}) {
        std::vector<Score> joined;
        while (joined.size() < whole.size()) {
          const std::size_t end = std::min(joined.size() + parts * apart, whole.size());
          const auto part = policy->scores_of_part(own.round, joined.size(), end);
          joined.insert(joined.end(), part.begin(), part.end());
        }
        ASSERT_EQ(joined.size(), whole.size());
        for (std::size_t i = 0; i < whole.size(); ++i) {
          EXPECT_EQ(joined[i].value, whole[i].value) << i;
          EXPECT_EQ(joined[i].estimate, whole[i].estimate) << i;
          EXPECT_EQ(joined[i].cluster_size, whole[i].cluster_size) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mcnb::policy_size_test
