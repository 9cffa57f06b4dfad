#include "mcnb/bandit/policy_kinds.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <numeric>

#include "tests/bandit/policy_cases.h"

namespace mcnb {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;
using plain::OwnFeatures;

// The policy computes networks in single precision, here and in all of its trainings.
constexpr double kTolerance = 1e-4;

// What a case runs with, and the policy's options that say so.
struct Case {
  World world;
  std::uint32_t width = 6;
  std::uint32_t depth = 2;
  bool biases = false;
  bool diagonal = false;
  bool online = false;

  NetworkShape shape() const { return {world.inputs(), width, depth, biases}; }
  OptionValues options() const {
    return {{"width", std::to_string(width)},
            {"depth", std::to_string(depth)},
            {"biases", biases ? "yes" : "no"},
            {"matrix", diagonal ? "diagonal" : "full"},
            {"training", online ? "online" : "replay"},
            {"alpha", "0.2"},
            {"lambda", "0.5"},
            {"online_rate", "0.02"},
            {"train_often_until", "200"},
            {"train_every_later", "50"},
            {"train_steps", "300"},
            {"learning_rate", "0.001"}};
  }
};

// NeuUCB as a textbook has it: the whole gradient, the whole of Z, inverted for every sample, one
// loop per index in training, all in double precision.
class PlainNeuUcb {
 public:
  PlainNeuUcb(const Case& what, std::uint64_t seed)
      : case_(what),
        seed_(seed),
        network_(what.shape(), random_network(what.shape(), Initialisation::kPaper, seed)),
        z_(0.5 * Eigen::MatrixXd::Identity(size(), size())) {}

  double score(const Features& x) const {
    const Eigen::VectorXd g = gradient(x);
    const double square =
        case_.diagonal ? g.cwiseAbs2().cwiseQuotient(z_.diagonal()).sum() : g.dot(inverse_ * g);
    return network_.value(x) + 0.2 * std::sqrt(square);
  }

  void add(const Sample& sample) {
    const Eigen::VectorXd g = gradient(sample.features);
    z_ += g * g.transpose();
    inverse_ = z_.inverse();
    const std::span<const float> values = sample.features.values;
    history_.push_back({{values.begin(), values.end()}, sample.features.offset});
    rewards_.push_back(sample.reward);
    if (case_.online) {
      network_.sgd_step(sample.features, sample.reward, 0.02);
    }
  }

  void end_round() {
    ++rounds_;
    if (!case_.online && rounds_ % (rounds_ <= 200 ? 10 : 50) == 0) {
      train();
    }
  }

 private:
  Eigen::Index size() const { return static_cast<Eigen::Index>(case_.shape().parameter_count()); }

  Eigen::VectorXd gradient(const Features& x) const {
    const std::vector<double> g = network_.gradient(x);
    return Eigen::Map<const Eigen::VectorXd>(g.data(), size());
  }

  void train() {
    Rng rng(seed_, Stream::kTrainingOrder, rounds_);
    plain::PlainAdam adam(network_, 0.001);
    std::vector<std::size_t> order(history_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    double loss = 0.0;
    for (std::size_t step = 0; step < 300; ++step) {
      const std::size_t i = step % order.size();
      std::swap(order[i], order[i + rng.below(order.size() - i)]);
      const Features x = history_[order[i]].view();
      loss += 0.5 * std::pow(network_.value(x) - rewards_[order[i]], 2.0);
      adam.step(network_, x, rewards_[order[i]]);
      if (i + 1 == order.size()) {
        if (loss / static_cast<double>(order.size()) <= 1e-3) {
          return;
        }
        loss = 0.0;
      }
    }
  }

  Case case_;
  std::uint64_t seed_;
  plain::PlainNetwork network_;
  Eigen::MatrixXd z_;
  Eigen::MatrixXd inverse_;
  std::vector<OwnFeatures> history_;
  std::vector<float> rewards_;
  std::uint64_t rounds_ = 0;
};

void expect_matches_textbook(const Case& what) {
  SCOPED_TRACE(testing::Message() << (what.world.blocks ? "blocks, " : "dense, ")
                                  << plain::describe(what.shape())
                                  << (what.diagonal ? ", diagonal" : ", full")
                                  << (what.online ? ", online" : ", replay"));
  ThreadPool threads(2);
  const PolicySetup setup = cases::setup_of(what.world, threads);
  const auto policy = neuucb_one_policy().build(what.options(), setup);
  PlainNeuUcb textbook(what, setup.seed);
  const OwnRound start = cases::draw_start(what.world);
  for (const Arm& arm : start.round.arms) {
    const Sample sample{arm.features, start.rewards[index(arm.index)]};
    policy->start(arm.user, sample);
    textbook.add(sample);
  }
  for (std::uint64_t id = 0; id < 320; ++id) {
    const OwnRound own = cases::draw_round(what.world, id);
    const std::vector<Score> scores = policy->scores(own.round);
    std::vector<Score> expected(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      expected[i].value = textbook.score(own.round.arms[i].features);
      ASSERT_NEAR(scores[i].value, expected[i].value, kTolerance) << "round " << id;
      ASSERT_EQ(scores[i].value, scores[i].estimate + scores[i].meta_bonus);
    }
    const ArmIndex choice = policy->choose(own.round);
    ASSERT_EQ(choice, highest(expected)) << "round " << id;
    const float reward = own.rewards[index(choice)];
    policy->learn(own.round.id, own.arm(choice), reward);
    textbook.add({own.arm(choice).features, reward});
    textbook.end_round();
  }
}

TEST(NeuUcb, ChoosesAsTheTextbookDoes) {
  for (const bool blocks : {false, true}) {
    for (const bool diagonal : {false, true}) {
      for (const std::uint32_t depth : {2U, 3U}) {
        expect_matches_textbook({.world = {.features = 4, .blocks = blocks},
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
          {.world = {.features = 4, .blocks = blocks}, .diagonal = diagonal, .online = true});
    }
  }
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
  const auto policy = neuucb_one_policy().build(options, cases::setup_of(world, threads));
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
  const auto policy = neuucb_one_policy().build({{"training", "online"}, {"width", "4"}},
                                                cases::setup_of(world, threads));
  const std::size_t memory = policy->memory_bytes();
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.start(*policy);
  session.play(*policy, 0, 40);
  EXPECT_EQ(policy->steps().training, 40 + world.users);
  EXPECT_EQ(policy->memory_bytes(), memory);  // keeps no history
}

TEST(NeuUcb, KeepsTheWholeMatrixUpTo3500Parameters) {
  ThreadPool threads(1);
  const auto memory = [&](std::uint32_t inputs, const std::string& matrix) {
    const World world{.features = inputs};
    return neuucb_one_policy()
        .build({{"matrix", matrix}, {"width", "100"}}, cases::setup_of(world, threads))
        ->memory_bytes();
  };
  EXPECT_EQ(memory(34, "auto"), memory(34, "full"));      // 3,500 parameters
  EXPECT_EQ(memory(35, "auto"), memory(35, "diagonal"));  // 3,600
  EXPECT_GT(memory(34, "full"), 100 * memory(34, "diagonal"));
  const World large{.features = 300};
  expect_error(ErrorKind::kUsage, "option matrix: expected auto or diagonal for a network of 30100",
               [&] {
                 neuucb_one_policy().build({{"matrix", "full"}}, cases::setup_of(large, threads));
               });
}

TEST(NeuUcb, GivesTiesToTheLowestIndex) {
  const World world;
  ThreadPool threads(2);
  const auto policy = neuucb_one_policy().build({{"width", "10"}}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 0);
  for (Arm& arm : own.round.arms) {
    arm.features = own.round.arms[0].features;
  }
  EXPECT_EQ(policy->choose(own.round), ArmIndex{0});
  const auto symmetric =  // f = 0 everywhere
      neuucb_one_policy().build({{"width", "10"}, {"initialisation", "symmetric"}, {"alpha", "0"}},
                                cases::setup_of(world, threads));
  EXPECT_EQ(symmetric->choose(cases::draw_round(world, 1).round), ArmIndex{0});
}

TEST(NeuUcb, AHistoryLimitBoundsItsMemory) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      neuucb_one_policy().build({{"width", "4"}, {"history_limit", "20"}, {"train_steps", "20"}},
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
  const auto policy = neuucb_one_policy().build({{"width", "50"}}, cases::setup_of(world, threads));
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
      neuucb_one_policy().resolve({{name, value}});
    });
    expect_error(ErrorKind::kUsage, ", got \"" + value + "\"", [&] {
      neuucb_one_policy().resolve({{name, value}});
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
  refused("learning_rate", "nan", "a number in [1e-09, 10]");
  refused("train_every", "0", "a whole number in [1, ");
  refused("train_steps", "4294967296", "a whole number in [0, 4294967295]");
  refused("stop_loss", "-0.1", "a number in [0, ");
  refused("optimiser", "newton", "adam | sgd");
  refused("biases", "maybe", "yes or no");
  refused("nu", "nu", "one of the options alpha, lambda, matrix");
  expect_error(ErrorKind::kUsage, "option width: expected an even number", [] {
    neuucb_one_policy().resolve({{"width", "5"}, {"initialisation", "symmetric"}});
  });
}

}  // namespace
}  // namespace mcnb
