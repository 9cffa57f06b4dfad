#include <gtest/gtest.h>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/textbook_neural.h"

namespace mcnb::epsilon_greedy_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;
using textbook::NeuralCase;

// f, for all arms.
class TextbookGreedy {
 public:
  TextbookGreedy(const NeuralCase& what, const PolicySetup& setup)
      : case_(what), seed_(setup.seed), network_(what, setup.inputs, setup.seed) {}

  void start(UserId, const Sample& sample) { network_.add(sample); }
  double score(RoundId, const Arm& arm) const { return network_.value(arm.features); }
  void learn(const Arm& arm, float reward) {
    network_.add({arm.features, reward});
    if (case_.training_is_due(++rewards_)) {
      network_.train(NeuralCase::kTrainSteps, Rng(seed_, Stream::kTrainingOrder, rewards_));
    }
  }

 private:
  NeuralCase case_;
  std::uint64_t seed_;
  textbook::Network network_;
  std::uint64_t rewards_ = 0;
};

TEST(EpsilonGreedy, IsGreedyAsTheTextbookIsWhereEpsilonIsZero) {
  for (const bool blocks : {false, true}) {
    for (const bool online : {false, true}) {
      const NeuralCase what{.world = {.features = 4, .blocks = blocks},
                            .depth = online ? 3U : 2U,
                            .online = online,
                            .more = {{"epsilon", "0"}}};
      SCOPED_TRACE(what.name());
      ThreadPool threads(2);
      const PolicySetup setup = cases::setup_of(what.world, threads);
      const auto policy = find_policy("epsilon-greedy").build(what.neural_options(), setup);
      TextbookGreedy textbook(what, setup);
      textbook::expect_matches(*policy, textbook, what.world);
    }
  }
}

// Counts how often each arm was drawn at random, and how often no arm was.
struct Draws {
  std::vector<int> by_arm;
  int none = 0;
};

Draws count_draws(Policy& policy, const World& world, std::uint64_t from, std::uint64_t to) {
  Draws draws{.by_arm = std::vector<int>(world.arms)};
  for (std::uint64_t id = from; id < to; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> scores = policy.scores(own.round);
    int drawn = 0;
    double best = scores[0].estimate;
    for (const Score& score : scores) {
      best = std::max(best, score.estimate);
    }
    for (std::size_t i = 0; i < scores.size(); ++i) {
      EXPECT_EQ(scores[i].value, scores[i].estimate + scores[i].part("draw"));
      if (scores[i].part("draw") != 0.0) {
        ++drawn;
        ++draws.by_arm[i];
        EXPECT_GT(scores[i].value, best);
        EXPECT_EQ(policy.choose(own.round), own.round.arms[i].index);
      }
    }
    EXPECT_LE(drawn, 1);
    if (drawn == 0) {
      ++draws.none;
      EXPECT_EQ(scores[index(policy.choose(own.round))].estimate, best);
    }
  }
  return draws;
}

TEST(EpsilonGreedy, DrawsEveryArmEquallyOftenWithProbabilityEpsilon) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("epsilon-greedy")
          .build({{"epsilon", "0.4"}, {"width", "10"}}, cases::setup_of(world, threads));
  const Draws draws = count_draws(*policy, world, 0, 4000);
  EXPECT_NEAR(draws.none, 2400, 120);  // four deviations
  for (const int count : draws.by_arm) {
    EXPECT_NEAR(count, 400, 80);
  }
}

TEST(EpsilonGreedy, DrawsLessOftenAfterRewardsWhereItDecays) {
  const World world;
  ThreadPool threads(1);
  const auto policy = find_policy("epsilon-greedy")
                          .build({{"epsilon", "1"}, {"decay", "0.1"}, {"train_steps", "0"}},
                                 cases::setup_of(world, threads));
  EXPECT_EQ(count_draws(*policy, world, 0, 100).none, 0);
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.play(*policy, 0, 90);  // now epsilon is 1 / (1 + 9)
  EXPECT_NEAR(count_draws(*policy, world, 1000, 2000).none, 900, 40);
}

TEST(EpsilonGreedy, LiftsTheDrawnArmAboveEstimatesOfAnySize) {
  const World world{.features = 1, .arms = 3};
  ThreadPool threads(1);
  const auto policy =
      find_policy("epsilon-greedy").build({{"epsilon", "1"}}, cases::setup_of(world, threads));
  for (const float size : {1.0F, 1e20F, -1e20F}) {
    for (std::uint64_t id = 0; id < 20; ++id) {
      OwnRound own = cases::draw_round(world, id);
      for (std::size_t i = 0; i < 3; ++i) {
        own.features[i][0] = size * static_cast<float>(i + 1);
      }
      const std::vector<Score> scores = policy->scores(own.round);
      const std::size_t choice = index(policy->choose(own.round));
      EXPECT_NE(scores[choice].part("draw"), 0.0);
    }
  }
}

TEST(EpsilonGreedy, OptionsOutOfRangeAreRefused) {
  for (const char* value : {"-0.1", "1.1", "nan"}) {
    expect_error(ErrorKind::kUsage, "option epsilon: expected a number in [0, 1]", [&] {
      find_policy("epsilon-greedy").resolve({{"epsilon", value}});
    });
  }
  expect_error(ErrorKind::kUsage, "option decay: expected a number in [0, ", [] {
    find_policy("epsilon-greedy").resolve({{"decay", "-1"}});
  });
}

}  // namespace
}  // namespace mcnb::epsilon_greedy_test
