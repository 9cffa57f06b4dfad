#pragma once

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "tests/bandit/policy_cases.h"

// A world of groups of users with linear rewards, for the tests of linear clustering bandits, and
// what their plain twins have in common.
namespace mcnb::cases {

struct GroupWorld {
  std::uint32_t features = 4;
  std::size_t arms = 4;
  std::size_t users = 12;
  std::size_t groups = 3;
  bool blocks = false;  // arm i is block i, for a user of its own
  double skew = 1.0;    // above 1: users with low numbers come more often
  double noise = 0.1;
  double size = 1.0;                // length of the true weights
  std::uint64_t regroup_every = 0;  // rounds after which users change their groups; 0: never
  std::uint64_t seed = 1;

  std::uint32_t inputs() const {
    return blocks ? features * static_cast<std::uint32_t>(arms) : features;
  }

  UserId draw_user(Rng& rng) const {
    const double share = std::pow(rng.uniform(), skew);
    return UserId{static_cast<std::uint32_t>(share * static_cast<double>(users))};
  }

  std::size_t group(UserId user, std::uint64_t id) const {
    const std::uint64_t time = regroup_every == 0 ? 0 : id / regroup_every;
    return time == 0 ? index(user) % groups
                     : static_cast<std::size_t>(
                           Rng(seed, Stream::kTest, time, static_cast<std::uint32_t>(user))
                               .below(groups));
  }

  float reward(UserId user, std::uint64_t id, const Features& x, Rng& rng) const {
    Rng taste(seed, Stream::kTest, 2, static_cast<std::uint32_t>(group(user, id)));
    std::vector<float> direction = draw_unit(taste, inputs());
    double sum = noise * rng.normal();
    const double scale = size * std::sqrt(blocks ? static_cast<double>(arms) : 1.0);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      sum += scale * x.values[i] * direction[x.offset + i];
    }
    return static_cast<float>(sum);
  }

  OwnRound round(std::uint64_t id) const {
    Rng rng(seed, Stream::kTest, id + 100, 7);
    OwnRound own;
    own.round.id = RoundId{id};
    const UserId served = draw_user(rng);
    for (std::uint32_t i = 0; i < arms; ++i) {
      own.features.push_back(draw_unit(rng, features));
      own.round.arms.push_back({.index = ArmIndex{i}, .user = blocks ? draw_user(rng) : served});
    }
    for (Arm& arm : own.round.arms) {
      const auto i = static_cast<std::uint32_t>(arm.index);
      arm.features = {own.features[i], blocks ? i * features : 0};
      own.rewards.push_back(reward(arm.user, id, arm.features, rng));
    }
    return own;
  }

  PolicySetup setup(ThreadPool& threads) const {
    return {.inputs = inputs(), .users = users, .seed = 7, .threads = &threads};
  }
};

// The linear state of a user or a group in textbook form: one matrix over the whole vector.
struct PlainState {
  Eigen::MatrixXd outer;  // sum of x x^T
  Eigen::VectorXd sum;    // sum of r x
  std::uint64_t samples = 0;

  explicit PlainState(std::size_t inputs)
      : outer(Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(inputs),
                                    static_cast<Eigen::Index>(inputs))),
        sum(Eigen::VectorXd::Zero(static_cast<Eigen::Index>(inputs))) {}

  static Eigen::VectorXd whole(const Features& features, std::size_t inputs) {
    Eigen::VectorXd x = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(inputs));
    for (std::size_t i = 0; i < features.values.size(); ++i) {
      x[static_cast<Eigen::Index>(features.offset + i)] = features.values[i];
    }
    return x;
  }

  void add(const Features& features, double reward) {
    const Eigen::VectorXd x = whole(features, static_cast<std::size_t>(sum.size()));
    outer += x * x.transpose();
    sum += reward * x;
    ++samples;
  }

  void add(const PlainState& other) {
    outer += other.outer;
    sum += other.sum;
    samples += other.samples;
  }

  Eigen::MatrixXd ridge(double lambda) const {
    return outer + lambda * Eigen::MatrixXd::Identity(outer.rows(), outer.cols());
  }
  Eigen::VectorXd weights(double lambda) const { return ridge(lambda).ldlt().solve(sum); }

  // `t` is the number of the round, counted from 1.
  double score(const Features& features, double lambda, double alpha, std::uint64_t t) const {
    const Eigen::VectorXd x = whole(features, static_cast<std::size_t>(sum.size()));
    const double uncertainty = x.dot(ridge(lambda).ldlt().solve(x));
    return x.dot(weights(lambda)) +
           alpha * std::sqrt(uncertainty * std::log(1.0 + static_cast<double>(t)));
  }
};

// The confidence width F(T) after T samples.
inline double plain_width(std::uint64_t samples) {
  const auto count = static_cast<double>(samples);
  return std::sqrt((1.0 + std::log(1.0 + count)) / (1.0 + count));
}

// Plays rounds. Rewards come at once or, if `late`, delayed, in another order, or never.
class Feedback {
 public:
  explicit Feedback(bool late) : late_(late) {}

  template <class Learn>
  void give(OwnRound own, ArmIndex choice, Learn learn) {
    Rng rng(1, Stream::kTest, index(own.round.id), 5);
    waiting_.emplace_back(std::move(own), choice);
    if (late_ && waiting_.size() <= 10) {
      return;
    }
    const auto position = static_cast<std::ptrdiff_t>(rng.below(waiting_.size()));
    const auto& [old, chosen] = waiting_[static_cast<std::size_t>(position)];
    if (!late_ || rng.chance(0.9)) {
      learn(old.round.id, old.arm(chosen), old.rewards[index(chosen)]);
    }
    waiting_.erase(waiting_.begin() + position);
  }

 private:
  bool late_;
  std::deque<std::pair<OwnRound, ArmIndex>> waiting_;
};

// Plays rounds with late feedback twice: once without a break, and once with a fresh policy every
// few rounds that loads the state of the previous one. Expects equal results, bit for bit.
template <class Make>
void expect_loads_change_nothing(const GroupWorld& world, std::uint64_t rounds, Make make) {
  const auto play = [&](std::uint64_t load_every) {
    Feedback feedback(true);
    std::vector<double> values;
    std::unique_ptr<Policy> policy = make();
    for (std::uint64_t id = 0; id < rounds; ++id) {
      if (load_every > 0 && id % load_every == load_every - 1) {
        const std::string state = saved(*policy);
        policy = make();
        load(*policy, state);
        EXPECT_TRUE(saved(*policy) == state) << "round " << id;
      }
      OwnRound own = world.round(id);
      for (const Score& score : policy->scores(own.round)) {
        values.insert(values.end(),
                      {score.value, score.estimate, static_cast<double>(score.cluster_size)});
      }
      const ArmIndex choice = policy->choose(own.round);
      feedback.give(std::move(own), choice, [&](RoundId round, const Arm& arm, float reward) {
        policy->learn(round, arm, reward);
      });
    }
    return std::pair(values, saved(*policy));
  };
  const auto [whole_values, whole_state] = play(0);
  const auto [values, state] = play(23);
  EXPECT_TRUE(same_bits(values, whole_values));
  EXPECT_TRUE(state == whole_state);
}

}  // namespace mcnb::cases
