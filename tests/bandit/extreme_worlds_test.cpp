// No policy with its defaults leaves the finite numbers, whatever finite arms and rewards it meets.
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cmath>
#include <deque>
#include <utility>

#include "tests/bandit/policy_cases.h"
#include "tests/long_tests.h"
#include "tests/sanitizers.h"

namespace mcnb::extreme_worlds_test {
namespace {

using cases::OwnRound;

constexpr std::uint64_t kWorlds = 50;

// A world whose arms have lengths from 1e-6 to 1e6 and whose rewards reach the limit, of both
// signs.
class ExtremeWorld {
 public:
  explicit ExtremeWorld(std::uint64_t number) : number_(number) {
    Rng rng(number, Stream::kTest);
    features_ = 2 + static_cast<std::uint32_t>(rng.below(9));
    arms_ = 2 + rng.below(5);
    users_ = 1 + rng.below(6);
    has_mixed_lengths_ = number % 2 == 1;
    length_ = -6.0 + static_cast<double>(number % 13);
    reward_ = number % 3 == 0 ? 1e6 : std::pow(10.0, rng.uniform() * 8.0 - 2.0);
    has_rare_rewards_ = rng.chance(0.3);
  }

  PolicySetup setup(ThreadPool& threads) {
    looks_.resize(users_ * 2);
    Rng rng(number_, Stream::kTest, 1);
    for (float& look : looks_) {
      look = static_cast<float>(rng.normal());
    }
    return {.inputs = features_,
            .users = users_,
            .seed = number_,
            .threads = &threads,
            .user_features = looks_,
            .user_feature_count = 2};
  }

  OwnRound round(std::uint64_t id) const {
    Rng rng(number_, Stream::kTest, id + 10);
    OwnRound own;
    own.round.id = RoundId{id};
    const UserId user{static_cast<std::uint32_t>(rng.below(users_))};
    for (std::uint32_t i = 0; i < arms_; ++i) {
      const bool is_zero = rng.chance(0.01);
      const double exponent = has_mixed_lengths_ ? rng.uniform() * 12.0 - 6.0 : length_;
      own.features.push_back(cases::draw_unit(rng, features_));
      double sum = index(user) % 2 == 0 ? 0.3 : -0.3;
      for (float& value : own.features.back()) {
        sum += value;
        value = is_zero ? 0.0F : static_cast<float>(value * std::pow(10.0, exponent));
      }
      own.rewards.push_back(reward_of(sum, rng));
      own.round.arms.push_back({.index = ArmIndex{i}, .user = user});
    }
    for (std::uint32_t i = 0; i < arms_; ++i) {
      own.round.arms[i].features = {own.features[i], 0};
    }
    return own;
  }

 private:
  float reward_of(double sum, Rng& rng) const {
    const double drawn = has_rare_rewards_ ? (rng.chance(0.1) ? sum : 0.0) : sum + rng.normal();
    return static_cast<float>(std::clamp(drawn * reward_, -1e6, 1e6));
  }

  std::uint64_t number_;
  std::uint32_t features_ = 0;
  std::size_t arms_ = 0;
  std::size_t users_ = 0;
  bool has_mixed_lengths_ = false;
  double length_ = 0.0;  // of all arms unless they are mixed, as a power of ten
  double reward_ = 0.0;  // the largest, about
  bool has_rare_rewards_ = false;
  std::vector<float> looks_;
};

bool is_finite(const Score& score) {
  return std::isfinite(score.value) && std::isfinite(score.estimate) &&
         std::ranges::all_of(score.parts(),
                             [](const ScorePart& part) { return std::isfinite(part.value); });
}

// Plays the rounds with feedback that comes late, in another order, or never.
void play(Policy& policy, const ExtremeWorld& world, std::uint64_t rounds) {
  std::deque<std::pair<OwnRound, ArmIndex>> waiting;
  for (std::uint64_t id = 0; id < rounds; ++id) {
    OwnRound own = world.round(id);
    const ArmIndex choice = policy.choose(own.round);
    if (id % 10 == 0) {
      for (const Score& score : policy.scores(own.round)) {
        ASSERT_TRUE(is_finite(score)) << "round " << id << ": " << score.value;
      }
    }
    waiting.emplace_back(std::move(own), choice);
    Rng rng(id, Stream::kTest, 3);
    if (waiting.size() > 10) {
      const auto place = static_cast<std::ptrdiff_t>(rng.below(waiting.size()));
      const auto& [late, arm] = waiting[static_cast<std::size_t>(place)];
      if (rng.chance(0.95)) {
        policy.learn(late.round.id, late.arm(arm), late.rewards[index(arm)]);
      }
      waiting.erase(waiting.begin() + place);
    }
  }
}

// What `./test` plays; slow policies play the worlds with the shortest, unit, longest and mixed
// arms.
std::vector<std::uint64_t> worlds_for(const std::string& policy) {
  constexpr std::array kSlow = {"kernelucb", "neuau", "neural-linear", "neuralts", "neuucb-one"};
  if (kSanitized) {
    return {3};
  }
  if (std::ranges::count(kSlow, policy) > 0) {
    return {0, 1, 6, 12};
  }
  std::vector<std::uint64_t> all(kWorlds);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  return all;
}

class ExtremeWorlds : public testing::TestWithParam<std::string> {};

TEST_P(ExtremeWorlds, DoNotDriveAPolicyOutOfTheFiniteNumbers) {
  const std::uint64_t rounds = long_tests() ? 10'000 : (kSanitized ? 100 : 500);
  for (const std::uint64_t number : worlds_for(GetParam())) {
    SCOPED_TRACE(number);
    ThreadPool threads(1);
    ExtremeWorld world(number);
    const auto policy = make_policy(parse_policy(GetParam()), world.setup(threads));
    play(*policy, world, rounds);
  }
}

std::vector<std::string> every_policy() {
  std::vector<std::string> all = {"mcnb:preset=default-classification"};
  for (const PolicyHelp& help : policy_help()) {
    all.push_back(help.name);
  }
  return all;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, ExtremeWorlds, testing::ValuesIn(every_policy()), test_name);

// A user, and arms whose rewards grow with their first feature from 0 to `largest`.
struct SimpleWorld {
  double largest = 1.0;
  double length = 1.0;

  double reward_of(double first) const { return largest * (0.5 + 0.5 * first); }

  OwnRound round(std::uint64_t id) const {
    Rng rng(5, Stream::kTest, id);
    OwnRound own;
    own.round.id = RoundId{id};
    for (std::uint32_t i = 0; i < 2; ++i) {
      own.features.push_back(cases::draw_unit(rng, 4));
      own.rewards.push_back(static_cast<float>(reward_of(own.features.back()[0])));
      for (float& value : own.features.back()) {
        value = static_cast<float>(value * length);
      }
      own.round.arms.push_back({.index = ArmIndex{i}});
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      own.round.arms[i].features = {own.features[i], 0};
    }
    return own;
  }
};

std::unique_ptr<Policy> make_for_one_user(const std::string& text, ThreadPool& threads) {
  static const std::vector<float> kLooks = {1.0F};
  return make_policy(parse_policy(text), {.inputs = 4,
                                          .users = 1,
                                          .seed = 1,
                                          .threads = &threads,
                                          .user_features = kLooks,
                                          .user_feature_count = 1});
}

// The share of the last half of the rounds in which the policy chooses the better arm.
double learned_share(Policy& policy, const SimpleWorld& world) {
  constexpr std::uint64_t kRounds = 600;
  double best = 0.0;
  for (std::uint64_t id = 0; id < kRounds; ++id) {
    const OwnRound own = world.round(id);
    const std::size_t choice = index(policy.choose(own.round));
    best += 2 * id >= kRounds && own.rewards[choice] >= own.rewards[1 - choice] ? 1.0 : 0.0;
    policy.learn(own.round.id, own.round.arms[choice], own.rewards[choice]);
  }
  return best / (kRounds / 2);
}

TEST(DampedPolicies, LearnRewardsOfAMillion) {
  for (const char* text : {"mcnb", "mcnb:preset=default-classification", "mcnb:preset=algorithm",
                           "neuucb-one", "neuucb-one:training=online", "neuucb-ind:training=online",
                           "neuau", "neuralts", "epsilon-greedy", "neural-linear"}) {
    ThreadPool threads(1);
    const auto policy = make_for_one_user(text, threads);
    EXPECT_GT(learned_share(*policy, {.largest = 1e6}), 0.6) << text;
  }
}

TEST(DampedPolicies, EstimateWhatTheRewardsAre) {
  for (const double largest : {1e2, 1e4, 1e6}) {
    for (const double length : {1e-6, 1.0, 1e6}) {
      const SimpleWorld world{.largest = largest, .length = length};
      ThreadPool threads(1);
      const auto policy = make_for_one_user("mcnb", threads);
      EXPECT_GT(learned_share(*policy, world), 0.85) << largest;
      double error = 0.0;
      for (std::uint64_t id = 1000; id < 1050; ++id) {
        const OwnRound own = world.round(id);
        const std::vector<Score> scores = policy->scores(own.round);
        error += std::abs(scores[0].estimate - own.rewards[0]) / 50.0;
      }
      EXPECT_LT(error, 0.1 * largest) << "length " << length;
    }
  }
}

}  // namespace
}  // namespace mcnb::extreme_worlds_test
