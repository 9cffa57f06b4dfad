#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/bandit/policy_cases.h"

namespace mcnb::cases {

// Lets a clustering policy and its plain twin play the same rounds, and compares scores, clusters
// and choices. A Twin has: double score(arm); std::set<std::size_t> cluster(arm); add(user,
// features, reward) for start data; learn(arm, reward); add_users(count).
template <class Twin>
class Comparison {
 public:
  struct Game {
    World world;
    Arrival arrival = Arrival::kAtOnce;
    // Returns round number `id` of the world with its rewards. Users may have been added before.
    std::function<OwnRound(const World& world, std::uint64_t id)> draw;
    double tolerance = 1e-9;  // for scores of size one, both in double precision
  };

  Comparison(Game game, std::unique_ptr<Policy> policy, Twin twin)
      : game_(std::move(game)), policy_(std::move(policy)), twin_(std::move(twin)) {}

  Twin& twin() { return twin_; }
  Policy& policy() { return *policy_; }

  void start(const OwnRound& data) {
    for (const Arm& arm : data.round.arms) {
      const float reward = data.rewards[index(arm.index)];
      policy_->start(arm.user, {arm.features, reward});
      twin_.add(arm.user, arm.features, reward);
    }
  }

  void add_users(std::size_t count) {
    game_.world.users += count;
    policy_->add_users(count);
    twin_.add_users(count);
  }

  void play(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t id = from; id < to; ++id) {
      ASSERT_NO_FATAL_FAILURE(play_one(id)) << "round " << id;
    }
  }

 private:
  void play_one(std::uint64_t id) {
    OwnRound own = game_.draw(game_.world, id);
    const std::vector<Score> scores = policy_->scores(own.round);
    std::vector<Score> expected(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const Arm& arm = own.round.arms[i];
      expected[i].value = twin_.score(arm);
      ASSERT_NEAR(scores[i].value, expected[i].value, game_.tolerance) << "arm " << i;
      ASSERT_EQ(scores[i].value, cases::sum_of(scores[i]));
      std::vector<UserId> cluster;
      for (const std::size_t user : twin_.cluster(arm)) {
        cluster.push_back(UserId{static_cast<std::uint32_t>(user)});
      }
      ASSERT_EQ(policy_->cluster(arm).value(), cluster) << "arm " << i;
      ASSERT_EQ(scores[i].cluster_size, cluster.size());
    }
    const ArmIndex choice = policy_->choose(own.round);
    ASSERT_EQ(choice, highest(expected));
    waiting_.emplace_back(std::move(own), choice);
    give_feedback(id);
  }

  void give_feedback(std::uint64_t id) {
    Rng rng(game_.world.seed, Stream::kTest, id, 5);
    const bool late = game_.arrival == Arrival::kLate;
    while (waiting_.size() > (late ? 15 : 0)) {
      const std::size_t position = late ? static_cast<std::size_t>(rng.below(waiting_.size())) : 0;
      const auto& [own, choice] = waiting_[position];
      if (!late || rng.chance(0.9)) {
        policy_->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
        twin_.learn(own.arm(choice), own.rewards[index(choice)]);
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(position));
    }
  }

  Game game_;
  std::unique_ptr<Policy> policy_;
  Twin twin_;
  std::deque<std::pair<OwnRound, ArmIndex>> waiting_;
};

}  // namespace mcnb::cases
