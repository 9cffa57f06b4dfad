#include "bench/learning_world.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <numbers>

#include "mcnb/base/random.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kKinds = 5;  // of actions; actions of a kind please the same groups
constexpr std::array<const char*, 3> kDaytimes{"morning", "noon", "evening"};

// How much a taste for the kind of an action counts, for the action itself, and for its kind at
// this time of day. The scores, with these weights, become chances by a logistic curve.
constexpr double kKindWeight = 0.8;
constexpr double kActionWeight = 4.0;
constexpr double kDaytimeWeight = 0.3;
constexpr double kMiddle = 3.0;
constexpr double kLowest = 0.05;
constexpr double kHighest = 0.8;

// What random numbers are drawn for: the second part of their address.
enum class Draw : std::uint32_t { kRound = 1, kReward = 2, kDelay = 3, kGroup = 4, kTaste = 16 };

Rng draw(std::uint64_t seed, Draw what, std::uint64_t index, std::uint32_t more = 0) {
  return {seed, Stream::kBenchmark, index, static_cast<std::uint32_t>(what) + more};
}

// Names of the things that a group has a taste for: actions, kinds, and kinds at a time of day.
std::uint64_t action_thing(std::uint64_t action) { return 1000 + action; }
std::uint64_t kind_thing(std::uint64_t kind) { return kind; }
std::uint64_t daytime_thing(std::uint64_t kind, std::uint64_t daytime) {
  return 100 + 10 * kind + daytime;
}

constexpr std::array<LearningScenario, 6> kScenarios{{
    {.name = "groups", .title = "Users in hidden groups; rewards come late"},
    {.name = "delays",
     .title = "Rewards come in batches; 30 % never come",
     .users = 50,
     .batch = 200,
     .missing = 0.3},
    {.name = "newcomers", .title = "New users come all the time", .users = 50, .leaving = 0.05},
    {.name = "drift", .title = "Tastes drift", .users = 50, .drift = 8000},
    {.name = "actions", .title = "Actions come and go", .users = 50, .replacement = 100},
    {.name = "single",
     .title = "One user, and one action that pays",
     .users = 1,
     .groups = 1,
     .one_pays = true},
}};

}  // namespace

std::span<const LearningScenario> learning_scenarios() { return kScenarios; }

LearningWorld::LearningWorld(const LearningScenario& scenario, std::uint64_t seed)
    : scenario_(scenario), seed_(seed) {
  for (; next_user_ < scenario.users; ++next_user_) {
    users_.push_back(next_user_);
  }
  for (; next_action_ < scenario.actions; ++next_action_) {
    actions_.push_back(next_action_);
  }
}

// Standard normal at every time, and drifting from one value to the next.
double LearningWorld::taste(std::uint64_t group, std::uint64_t thing, std::uint64_t number) const {
  const auto value = [&](std::uint64_t epoch) {
    return draw(seed_, Draw::kTaste, (epoch << 32) | thing, static_cast<std::uint32_t>(group))
        .normal();
  };
  if (scenario_.drift == 0) {
    return value(0);
  }
  const double angle = std::numbers::pi / 2.0 * static_cast<double>(number % scenario_.drift) /
                       static_cast<double>(scenario_.drift);
  const std::uint64_t epoch = number / scenario_.drift;
  return std::cos(angle) * value(epoch) + std::sin(angle) * value(epoch + 1);
}

double LearningWorld::expected_reward(std::uint64_t group, std::uint64_t action,
                                      std::uint64_t daytime, std::uint64_t number) const {
  if (scenario_.one_pays) {
    return action == seed_ % scenario_.actions ? 0.8 : 0.05;
  }
  const std::uint64_t kind = action % kKinds;
  const double score = kKindWeight * taste(group, kind_thing(kind), number) +
                       kActionWeight * taste(group, action_thing(action), number) +
                       kDaytimeWeight * taste(group, daytime_thing(kind, daytime), number);
  return kLowest + (kHighest - kLowest) / (1.0 + std::exp(kMiddle - score));
}

std::string LearningWorld::body(const std::string& user, std::uint64_t daytime,
                                std::uint64_t number) const {
  std::string actions;
  for (const std::uint64_t action : actions_) {
    actions += fmt::format(R"({}{{"id":"action-{}","features":{{"name":"{}","kind":"kind-{}"}}}})",
                           actions.empty() ? "" : ",", action, action, action % kKinds);
  }
  return fmt::format(
      R"({{"eventId":"{}","userId":"{}","contextFeatures":{{"daytime":"{}"}},"actions":[{}]}})",
      number, user, kDaytimes[daytime], actions);
}

LearningRound LearningWorld::round(std::uint64_t number, const ModelOptions& model) {
  Rng rng = draw(seed_, Draw::kRound, number);
  std::uint64_t& user = users_[rng.below(users_.size())];
  const std::uint64_t daytime = rng.below(kDaytimes.size());
  if (rng.chance(scenario_.leaving)) {
    user = next_user_++;
  }
  if (scenario_.replacement > 0 && number > 0 && number % scenario_.replacement == 0) {
    actions_[rng.below(actions_.size())] = next_action_++;
  }
  const std::uint64_t group = draw(seed_, Draw::kGroup, user).below(scenario_.groups);
  LearningRound round;
  round.body = body(fmt::format("user-{}", user), daytime, number);
  round.request = read_rank(round.body, model, Dialect::kOwn);
  for (const std::uint64_t action : actions_) {
    round.expected.push_back(expected_reward(group, action, daytime, number));
  }
  return round;
}

float LearningWorld::reward(std::uint64_t number, std::size_t action, double expected) const {
  return draw(seed_, Draw::kReward, number * kMostActions + action).chance(expected) ? 1.0F : 0.0F;
}

std::optional<std::uint64_t> LearningWorld::reward_comes(std::uint64_t number) const {
  Rng rng = draw(seed_, Draw::kDelay, number);
  if (rng.chance(scenario_.missing)) {
    return std::nullopt;
  }
  if (scenario_.batch > 0) {
    return (number / scenario_.batch + 1) * scenario_.batch;
  }
  return number + scenario_.earliest + rng.below(scenario_.latest - scenario_.earliest + 1);
}

}  // namespace mcnb::bench
