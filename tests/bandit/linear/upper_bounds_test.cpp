#include "mcnb/bandit/linear/upper_bounds.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <deque>
#include <memory>

#include "tests/bandit/policy_cases.h"

namespace mcnb::upper_bounds_test {
namespace {

using cases::OwnRound;
using cases::World;

// ---- opinions alone

// Ridge states with several short and long blocks, and rounds for them.
class Opinions : public testing::Test {
 protected:
  static constexpr double kLambda = 0.5;

  const RidgeState* add_ridge(std::size_t length, int samples) {
    ridges_.push_back(std::make_unique<RidgeState>(length, kLambda));
    for (int i = 0; i < samples; ++i) {
      ridges_.back()->add(plain::draw(rng_, length), rng_.uniform());
    }
    return ridges_.back().get();
  }

  ArmIndex add_arm(std::vector<float> features) {
    const ArmIndex arm{static_cast<std::uint32_t>(features_.size())};
    features_.push_back(std::move(features));
    round_.arms.push_back({.index = arm, .features = {features_.back(), 0}});
    return arm;
  }

  // Computes all values and returns the first arm with the highest. Bounds must not change it.
  std::uint32_t plain_choice(double scale) const {
    double best = 0.0;
    std::optional<std::uint32_t> chosen;
    for (std::uint32_t arm = 0; arm < features_.size(); ++arm) {
      for (const Opinion& opinion : opinions_) {
        if (opinion.arm != ArmIndex{arm}) {
          continue;
        }
        const RidgePrediction said = predict(opinion.ridge, features_[arm], kLambda);
        const double value = said.estimate + scale * said.uncertainty;
        if (!chosen || value > best) {
          best = value;
          chosen = arm;
        }
      }
    }
    return chosen.value();
  }

  void expect_plain_choice() {
    for (const double scale : {0.0, 1e-12, 1e-3, 0.1, 1.0, 30.0, 1e6}) {
      for (ThreadPool* threads : {&one_, &three_}) {
        EXPECT_EQ(index(choose_by_bounds(round_, {users_, *threads, scale}, opinions_)),
                  plain_choice(scale))
            << scale;
      }
    }
  }

  void clear() {
    ridges_.clear();
    features_.clear();
    opinions_.clear();
    round_.arms.clear();
  }

  Rng rng_{1, Stream::kTest};
  LinearUsers users_{1, 1, kLambda};
  ThreadPool one_{1};
  ThreadPool three_{3};
  std::vector<std::unique_ptr<RidgeState>> ridges_;
  std::deque<std::vector<float>> features_;  // rounds borrow them
  std::vector<Opinion> opinions_;
  Round round_;
};

TEST_F(Opinions, ChooseWhatAllValuesWouldChoose) {
  for (int world = 0; world < 60; ++world) {
    SCOPED_TRACE(world);
    clear();
    for (std::uint64_t i = 0, arms = 1 + rng_.below(9); i < arms; ++i) {
      const std::size_t length = rng_.chance(0.2) ? 1 + rng_.below(64) : 65 + rng_.below(40);
      const ArmIndex arm = add_arm(plain::draw(rng_, length, std::exp(rng_.normal())));
      for (std::uint64_t k = 0, count = 1 + rng_.below(3); k < count; ++k) {
        const bool known = rng_.chance(0.8);
        opinions_.push_back(
            {arm, known ? add_ridge(length, static_cast<int>(rng_.below(40))) : nullptr});
      }
    }
    expect_plain_choice();
  }
}

TEST_F(Opinions, OfEqualArmsTheFirstIsChosen) {
  const RidgeState* const ridge = add_ridge(80, 30);
  const std::vector<float> zero(80, 0.0F);
  std::vector<float> good = plain::draw(rng_, 80, 3.0);
  if (ridge->estimate(good) < 0.0) {
    for (float& value : good) {
      value = -value;
    }
  }
  for (const std::vector<float>& x : {zero, good, zero, good, good}) {
    opinions_.push_back({add_arm(x), ridge});
  }
  EXPECT_EQ(plain_choice(0.1), 1U);
  expect_plain_choice();
  std::ranges::reverse(opinions_);
  expect_plain_choice();
  for (Opinion& opinion : opinions_) {
    opinion.ridge = nullptr;
  }
  EXPECT_EQ(plain_choice(0.0), 0U) << "everything is equal";
  expect_plain_choice();
}

// ---- policies

class LongBlocks : public testing::TestWithParam<std::string> {
 protected:
  // Plays rounds, changed as `change` says, and learns from the choice or from another arm.
  template <class Change>
  static void expect_highest(const World& world, const std::string& options, int rounds,
                             Change change) {
    ThreadPool threads(2);
    const auto policy =
        make_policy(parse_policy(GetParam() + options), cases::setup_of(world, threads));
    std::vector<int> chosen(world.arms);
    for (int id = 0; id < rounds; ++id) {
      OwnRound own = cases::draw_round(world, static_cast<std::uint64_t>(id));
      change(own, id);
      const ArmIndex expected = highest(policy->scores(own.round));
      ASSERT_EQ(policy->choose(own.round), expected) << GetParam() << options << ", round " << id;
      ++chosen[index(expected)];
      const ArmIndex learned =
          id % 4 == 0
              ? ArmIndex{static_cast<std::uint32_t>(static_cast<std::size_t>(id) / 4 % world.arms)}
              : expected;
      policy->learn(own.round.id, own.arm(learned), own.rewards[index(learned)]);
    }
    if (world.arms > 1 && rounds > 100) {
      EXPECT_GT(std::ranges::count_if(chosen, [](int count) { return count > 0; }), 1);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, LongBlocks,
                         testing::Values("linucb:users=one", "linucb:users=each",
                                         "club:alpha_2=0.5", "cofiba:alpha_2=2",
                                         "sclub:alpha_w=0.6", "locb:seeds=2:gamma=2.5"),
                         [](const auto& policy) {
                           std::string name = policy.param;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

const auto kUnchanged = [](OwnRound&, int) {};

TEST_P(LongBlocks, ChooseTheHighestScore) {
  for (const bool blocks : {false, true}) {
    const World world{.features = 67, .arms = 5, .blocks = blocks};
    expect_highest(world, "", 300, kUnchanged);
    expect_highest(world, ":lambda=0.01", 150, kUnchanged);
    for (const char* alpha : {":alpha=0", ":alpha=1e-9", ":alpha=0.02", ":alpha=2", ":alpha=1e6"}) {
      expect_highest(world, alpha, 60, kUnchanged);
    }
  }
}

TEST_P(LongBlocks, ChooseTheFirstOfEqualArms) {
  const World world{.features = 67, .arms = 6};
  const auto make_equal = [](OwnRound& own, int id) {
    for (std::size_t arm = id % 2 == 0 ? 1 : 3; arm < own.features.size(); ++arm) {
      std::ranges::copy(own.features[id % 2 == 0 ? 0 : 2], own.features[arm].begin());
    }
  };
  for (const char* alpha : {":alpha=0", ":alpha=0.1", ":alpha=100"}) {
    expect_highest(world, alpha, 60, make_equal);
  }
}

TEST_P(LongBlocks, ChooseTheOnlyArm) {
  for (const bool blocks : {false, true}) {
    expect_highest({.features = 90, .arms = 1, .blocks = blocks}, "", 20, kUnchanged);
  }
}

TEST_P(LongBlocks, RefuseABadRoundBeforeAnythingChanges) {
  const World world{.features = 67, .arms = 4, .blocks = true};
  ThreadPool threads(1);
  const auto policy = make_policy(parse_policy(GetParam()), cases::setup_of(world, threads));
  cases::Session(world, cases::Arrival::kAtOnce).play(*policy, 0, 5);
  const std::string before = cases::saved(*policy);
  const OwnRound good = cases::draw_round(world, 6);
  const auto refused = [&](const std::string& words, const Round& round) {
    plain::expect_error(ErrorKind::kInput, words, [&] { policy->choose(round); });
  };
  Round bad = good.round;
  bad.arms[1].index = ArmIndex{9};
  refused("round 6, arm 1: expected the index 1, got 9", bad);
  bad = good.round;
  bad.arms[1].user = UserId{3};
  refused("round 6, arm 1: user 3 is unknown", bad);
  bad = good.round;
  bad.arms[2].features.offset += 1;
  refused("round 6, arm 2", bad);
  std::vector<float> values = good.features[3];
  values[66] = std::nanf("");
  bad = good.round;
  bad.arms[3].features.values = values;
  refused("round 6, arm 3: feature 66 is nan", bad);
  EXPECT_TRUE(cases::saved(*policy) == before);
}

TEST_P(LongBlocks, GoOnAfterSaveAndLoadOnAnyNumberOfThreads) {
  for (const bool blocks : {false, true}) {
    const World world{.features = 67, .arms = 4, .blocks = blocks};
    const auto make = [&](ThreadPool& threads) {
      return make_policy(parse_policy(GetParam()), cases::setup_of(world, threads));
    };
    ThreadPool one(1);
    const auto through = make(one);
    cases::Session whole(world, cases::Arrival::kLate);
    whole.start(*through);
    whole.play(*through, 0, 120);
    for (const std::size_t count : {1U, 2U, 8U}) {
      ThreadPool threads(count);
      auto broken = make(threads);
      cases::Session parts(world, cases::Arrival::kLate);
      parts.start(*broken);
      for (const auto& [from, to] : {std::pair{0, 5}, {5, 66}, {66, 120}}) {
        parts.play(*broken, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
        const std::string state = cases::saved(*broken);
        broken = make(threads);
        cases::load(*broken, state);
        EXPECT_TRUE(cases::saved(*broken) == state);
      }
      EXPECT_EQ(parts.choices(), whole.choices());
      EXPECT_TRUE(cases::same_bits(parts.values(), whole.values()));
      EXPECT_TRUE(cases::saved(*broken) == cases::saved(*through));
    }
  }
}

}  // namespace
}  // namespace mcnb::upper_bounds_test
