#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"

#include <gtest/gtest.h>

#include "tests/bandit/textbook_neural.h"
#include "tests/sanitizers.h"

namespace mcnb::neuucb_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;
using textbook::NeuralCase;

// f + alpha sqrt(g^T Z^-1 g), or a draw from that deviation around f.
class TextbookBandit {
 public:
  TextbookBandit(const NeuralCase& what, bool draws, const PolicySetup& setup)
      : case_(what), draws_(draws), seed_(setup.seed), model_(what, setup.inputs, setup.seed) {}

  void start(UserId, const Sample& sample) { model_.add(sample); }

  double score(RoundId round, const Arm& arm) const {
    Rng rng(seed_, Stream::kThompson, index(round), static_cast<std::uint32_t>(index(arm.index)));
    return model_.network.value(arm.features) +
           model_.deviation(arm.features) * (draws_ ? rng.normal() : 1.0);
  }

  void learn(const Arm& arm, float reward) {
    model_.add({arm.features, reward});
    if (case_.training_is_due(++rewards_)) {
      model_.network.train(NeuralCase::kTrainSteps, Rng(seed_, Stream::kTrainingOrder, rewards_));
    }
  }

 private:
  NeuralCase case_;
  bool draws_;
  std::uint64_t seed_;
  textbook::UncertainNetwork model_;
  std::uint64_t rewards_ = 0;
};

void expect_matches_textbook(const PolicyKind& kind, const NeuralCase& what) {
  SCOPED_TRACE(std::string(kind.name) + ", " + what.name());
  ThreadPool threads(2);
  const PolicySetup setup = cases::setup_of(what.world, threads);
  const auto policy = kind.build(what.options(), setup);
  TextbookBandit textbook(what, std::string(kind.name) == "neuralts", setup);
  textbook::expect_matches(*policy, textbook, what.world);
}

TEST(NeuUcb, ChoosesAsTheTextbookDoes) {
  for (const bool blocks : {false, true}) {
    for (const bool diagonal : {false, true}) {
      for (const std::uint32_t depth : {2U, 3U}) {
        expect_matches_textbook(find_policy("neuucb-one"),
                                {.world = {.features = depth == 3 ? 2U : 4U, .blocks = blocks},
                                 .depth = depth,
                                 .biases = depth == 3,
                                 .diagonal = diagonal});
      }
    }
  }
}

TEST(NeuUcb, ChoosesAsTheTextbookDoesWhenItLearnsOnline) {
  for (const bool blocks : {false, true}) {
    for (const bool diagonal : {false, true}) {
      expect_matches_textbook(
          find_policy("neuucb-one"),
          {.world = {.features = 4, .blocks = blocks}, .diagonal = diagonal, .online = true});
    }
  }
}

TEST(NeuralTs, ChoosesAsTheTextbookDoes) {
  for (const bool blocks : {false, true}) {
    for (const bool diagonal : {false, true}) {
      expect_matches_textbook(find_policy("neuralts"),
                              {.world = {.features = 3, .blocks = blocks}, .diagonal = diagonal});
    }
  }
}

TEST(NeuralTs, DrawsFromItsDeviationAroundItsEstimate) {
  const World world{.arms = 50};
  ThreadPool threads(2);
  const PolicySetup setup = cases::setup_of(world, threads);
  const auto draws = find_policy("neuralts").build({{"alpha", "0.3"}}, setup);
  const auto bounds = find_policy("neuucb-one").build({{"alpha", "0.3"}}, setup);
  double sum = 0.0;
  double squares = 0.0;
  for (std::uint64_t id = 0; id < 40; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> drawn = draws->scores(own.round);
    const std::vector<Score> bound = bounds->scores(own.round);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_EQ(drawn[i].estimate, bound[i].estimate);
      const double normal = drawn[i].part("draw") / bound[i].part("uncertainty");
      sum += normal;
      squares += normal * normal;
    }
  }
  EXPECT_NEAR(sum / 2000.0, 0.0, 0.1);
  EXPECT_NEAR(squares / 2000.0, 1.0, 0.15);
}

TEST(NeuUcb, TrainsByItsSchedule) {
  const World world;
  ThreadPool threads(1);
  const OptionValues options = {{"width", "4"},
                                {"train_every", "10"},
                                {"train_often_until", "30"},
                                {"train_every_later", "25"},
                                {"train_steps", "7"},
                                {"stop_loss", "0"}};
  const auto policy = find_policy("neuucb-one").build(options, cases::setup_of(world, threads));
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.start(*policy);
  EXPECT_EQ(policy->steps().training, 0U);  // start data are no rounds
  std::vector<std::uint64_t> trained_after;
  for (std::uint64_t id = 0; id < 105; ++id) {
    const std::uint64_t before = policy->steps().training;
    session.play(*policy, id, id + 1);
    if (policy->steps().training > before) {
      EXPECT_EQ(policy->steps().training, before + 7);
      trained_after.push_back(id + 1);
    }
  }
  EXPECT_EQ(trained_after, (std::vector<std::uint64_t>{10, 20, 30, 50, 75, 100}));
  EXPECT_EQ(policy->steps().adaptation, 0U);
}

TEST(NeuUcb, OnlineTakesOneStepASample) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("neuucb-one")
          .build({{"training", "online"}, {"width", "4"}}, cases::setup_of(world, threads));
  const std::size_t memory = policy->memory_bytes();
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.start(*policy);
  session.play(*policy, 0, 40);
  EXPECT_EQ(policy->steps().training, 40 + world.users);
  EXPECT_EQ(policy->memory_bytes(), memory);  // keeps no history
}

TEST(NeuUcb, GivesTiesToTheLowestIndex) {
  const World world;
  ThreadPool threads(2);
  const auto policy =
      find_policy("neuucb-one").build({{"width", "10"}}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 0);
  for (Arm& arm : own.round.arms) {
    arm.features = own.round.arms[0].features;
  }
  EXPECT_EQ(policy->choose(own.round), ArmIndex{0});
  const auto symmetric =  // f = 0 everywhere
      find_policy("neuucb-one")
          .build({{"width", "10"}, {"initialisation", "symmetric"}, {"alpha", "0"}},
                 cases::setup_of(world, threads));
  EXPECT_EQ(symmetric->choose(cases::draw_round(world, 1).round), ArmIndex{0});
}

// `choose` skips arms that cannot win; `scores` computes all of them.
TEST(NeuUcb, ChoosesTheHighestOfAllScores) {
  const World world{.arms = 40};
  ThreadPool threads(2);
  for (const PolicyKind& kind : {find_policy("neuucb-one"), find_policy("neuralts")}) {
    for (const char* matrix : {"full", "diagonal"}) {
      for (const char* alpha : {"0", "0.01", "0.3", "100"}) {
        SCOPED_TRACE(std::string(kind.name) + " " + matrix + " " + alpha);
        const auto policy = kind.build({{"width", "10"}, {"matrix", matrix}, {"alpha", alpha}},
                                       cases::setup_of(world, threads));
        const auto looked_at = kind.build({{"width", "10"}, {"matrix", matrix}, {"alpha", alpha}},
                                          cases::setup_of(world, threads));
        for (std::uint64_t t = 0; t < (kThreadSanitized ? 40 : 120); ++t) {
          const OwnRound own = cases::draw_round(world, t);
          const ArmIndex choice = highest(looked_at->scores(own.round));
          ASSERT_EQ(policy->choose(own.round), choice) << t;
          const Arm& arm = own.round.arms[index(choice)];
          const auto reward = static_cast<float>(t % 3 == 0);
          policy->learn(own.round.id, arm, reward);
          looked_at->learn(own.round.id, arm, reward);
        }
      }
    }
  }
}

TEST(NeuUcb, AHistoryLimitBoundsItsMemory) {
  const World world;
  ThreadPool threads(1);
  const auto policy = find_policy("neuucb-one")
                          .build({{"width", "4"}, {"history_limit", "20"}, {"train_steps", "20"}},
                                 cases::setup_of(world, threads));
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.play(*policy, 0, 100);
  const std::size_t memory = policy->memory_bytes();
  session.play(*policy, 100, 400);
  EXPECT_EQ(policy->memory_bytes(), memory);
}

TEST(NeuUcb, RefusesFeaturesTooLargeForTheNetwork) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("neuucb-one").build({{"width", "50"}}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 4);
  std::ranges::fill(own.features[1], 3e38F);
  const std::string before = cases::saved(*policy);
  const auto refused = [](const std::string& words, const std::function<void()>& action) {
    expect_error(ErrorKind::kInput, words, action);
  };
  refused("round 4, arm 1: the network's value is", [&] { policy->choose(own.round); });
  refused("feedback on round 4, arm 1: the network's value is",
          [&] { policy->learn(RoundId{4}, own.round.arms[1], 1.0F); });
  refused("start of user 2: the network's value is", [&] {
    policy->start(UserId{2}, {own.round.arms[1].features, 1.0F});
  });
  EXPECT_TRUE(cases::saved(*policy) == before);
}

TEST(NeuUcb, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value,
                          const std::string& expected) {
    expect_error(ErrorKind::kUsage, "option " + name + ": expected " + expected, [&] {
      find_policy("neuucb-one").resolve({{name, value}});
    });
    expect_error(ErrorKind::kUsage, ", got \"" + value + "\"", [&] {
      find_policy("neuucb-one").resolve({{name, value}});
    });
  };
  refused("alpha", "-1", "a number in [0, ");
  refused("lambda", "0", "a number in [1e-06, ");
  refused("matrix", "half", "auto | full | diagonal");
  refused("width", "0", "a whole number in [1, 16384]");
  refused("width", "-5", "a whole number in [1, 16384]");
  refused("depth", "1", "a whole number in [2, 64]");
  refused("training", "never", "replay | online");
  refused("online_rate", "0", "a number in [1e-09, 10]");
  refused("learning_rate", "nan", "a number in (0, 1000]");
  refused("train_every", "0", "a whole number in [1, ");
  refused("train_steps", "4294967296", "a whole number in [0, 4294967295]");
  refused("stop_loss", "-0.1", "a number in [0, ");
  refused("optimiser", "newton", "adam | sgd");
  refused("biases", "maybe", "yes or no");
  refused("nu", "nu", "one of the options alpha, lambda, matrix");
}

}  // namespace
}  // namespace mcnb::neuucb_test
