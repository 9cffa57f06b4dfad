#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/base/random.h"
#include "tests/numeric/plain_network.h"

// Rounds for the tests of policies, and the ways they run a policy.
namespace mcnb::cases {

// A small world: arms are unit vectors, dense and for one user, or one block each for its own user.
struct World {
  std::uint32_t features = 5;
  std::size_t arms = 4;
  std::size_t users = 3;
  bool blocks = false;
  std::uint64_t seed = 1;

  std::uint32_t inputs() const {
    return blocks ? features * static_cast<std::uint32_t>(arms) : features;
  }
};

// A round that owns its features, and the rewards of its arms.
struct OwnRound {
  std::vector<std::vector<float>> features;
  std::vector<float> rewards;
  Round round;

  const Arm& arm(ArmIndex i) const { return round.arms[index(i)]; }
};

// The sum of the estimate and the parts outside it, added in the order that a score uses.
inline double sum_of(double estimate, std::span<const ScorePart> parts) {
  return std::accumulate(parts.begin(), parts.end(), estimate,
                         [](double sum, const ScorePart& part) {
                           return sum + (part.in_estimate ? 0.0 : part.value);
                         });
}
inline double sum_of(const Score& score) { return sum_of(score.estimate, score.parts()); }

inline std::vector<std::string> part_names(const Score& score) {
  std::vector<std::string> names;
  for (const ScorePart& part : score.parts()) {
    names.emplace_back(part.name);
  }
  return names;
}

inline std::vector<float> draw_unit(Rng& rng, std::size_t count) {
  std::vector<float> x = plain::draw(rng, count);
  double squares = 0.0;
  for (const float value : x) {
    squares += static_cast<double>(value) * value;
  }
  for (float& value : x) {
    value = static_cast<float>(value / std::sqrt(squares));
  }
  return x;
}

// The reward depends on the user and, not linearly, on the features.
inline float reward_of(const World& world, UserId user, std::span<const float> x) {
  Rng taste(world.seed, Stream::kTest, 1, static_cast<std::uint32_t>(user));
  double sum = 0.0;
  for (const float value : x) {
    sum += taste.normal() * value;
  }
  return static_cast<float>(0.5 + 0.5 * std::cos(2.0 * sum));
}

inline OwnRound draw_round(const World& world, std::uint64_t id) {
  Rng rng(world.seed, Stream::kTest, id + 100);
  OwnRound own;
  own.round.id = RoundId{id};
  const auto served = static_cast<std::uint32_t>(rng.below(world.users));
  for (std::uint32_t i = 0; i < world.arms; ++i) {
    const UserId user{world.blocks ? i % static_cast<std::uint32_t>(world.users) : served};
    own.features.push_back(draw_unit(rng, world.features));
    own.rewards.push_back(reward_of(world, user, own.features.back()));
    own.round.arms.push_back({.index = ArmIndex{i}, .user = user});
  }
  for (std::uint32_t i = 0; i < world.arms; ++i) {
    own.round.arms[i].features = {own.features[i], world.blocks ? i * world.features : 0};
  }
  return own;
}

// One sample for every user, before the first round.
inline OwnRound draw_start(const World& world) {
  World of_users = world;
  of_users.arms = world.users;
  OwnRound own = draw_round(of_users, 1'000'000);
  for (std::uint32_t i = 0; i < world.users; ++i) {
    own.round.arms[i].user = UserId{i};
    own.round.arms[i].features.offset =
        world.blocks ? i % static_cast<std::uint32_t>(world.arms) * world.features : 0;
    own.rewards[i] = reward_of(world, UserId{i}, own.features[i]);
  }
  return own;
}

inline constexpr std::size_t kUserFeatures = 2;
inline constexpr std::size_t kMostUsersWithFeatures = 1000;

// The features of the first `users` users, one user after the other.
inline std::span<const float> user_features(std::size_t users) {
  static const std::vector<float> all = [] {
    Rng rng(1, Stream::kTest, 3);
    return plain::draw(rng, kMostUsersWithFeatures * kUserFeatures,
                       static_cast<double>(kMostUsersWithFeatures));
  }();
  return std::span(all).first(users * kUserFeatures);
}

// The setup of a policy for the world. Users have features unless there are too many users.
inline PolicySetup setup_of(const World& world, ThreadPool& threads) {
  PolicySetup setup{.inputs = world.inputs(),
                    .users = world.users,
                    .seed = 7,
                    .threads = &threads,
                    .block_length = world.blocks ? world.features : 0};
  if (world.users <= kMostUsersWithFeatures) {
    setup.user_features = user_features(world.users);
    setup.user_feature_count = kUserFeatures;
  }
  return setup;
}

// When rewards come back.
enum class Arrival { kAtOnce, kLate };

// Runs a policy through rounds [from, to) and records every score. Late rewards are delayed by up
// to 20 other rewards and arrive in another order; one in ten never arrives.
class Session {
 public:
  Session(const World& world, Arrival arrival) : world_(world), arrival_(arrival) {}

  void start(Policy& policy) const {
    const OwnRound own = draw_start(world_);
    for (const Arm& arm : own.round.arms) {
      policy.start(arm.user, {arm.features, own.rewards[index(arm.index)]});
    }
  }

  void play(Policy& policy, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t id = from; id < to; ++id) {
      OwnRound own = draw_round(world_, id);
      for (const Score& score : policy.scores(own.round)) {
        values_.insert(values_.end(), {score.value, score.estimate});
        for (const ScorePart& part : score.parts()) {
          values_.push_back(part.value);
        }
      }
      const ArmIndex choice = policy.choose(own.round);
      choices_.push_back(index(choice));
      waiting_.emplace_back(std::move(own), choice);
      give_feedback(policy, id);
    }
  }

  const std::vector<double>& values() const { return values_; }
  const std::vector<std::size_t>& choices() const { return choices_; }

 private:
  void give_feedback(Policy& policy, std::uint64_t id) {
    Rng rng(world_.seed, Stream::kTest, id, 5);
    const bool late = arrival_ == Arrival::kLate;
    while (waiting_.size() > (late ? 20 : 0)) {
      const std::size_t position = late ? static_cast<std::size_t>(rng.below(waiting_.size())) : 0;
      const auto& [own, choice] = waiting_[position];
      if (!late || rng.chance(0.9)) {
        policy.learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(position));
    }
  }

  World world_;
  Arrival arrival_;
  std::deque<std::pair<OwnRound, ArmIndex>> waiting_;
  std::vector<double> values_;
  std::vector<std::size_t> choices_;
};

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

// A policy's whole state.
inline std::string saved(const Policy& policy) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  policy.save(writer);
  writer.finish();
  return out.str();
}

inline void load(Policy& policy, const std::string& state) {
  std::istringstream in(state);
  StateReader reader(in, "state", {.kind = "test"});
  policy.load(reader);
  reader.finish();
}

}  // namespace mcnb::cases
