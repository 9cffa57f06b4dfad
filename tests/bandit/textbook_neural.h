#pragma once

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/bandit/policy_cases.h"
#include "tests/sanitizers.h"

// Neural policies in textbook form: whole vectors, the full matrix Z inverted for every sample, and
// training with one loop per index, all in double precision.
namespace mcnb::textbook {

// Networks are computed in single precision by the policies, here and in all of their trainings.
inline constexpr double kTolerance = 1e-4;

// The settings of a test case, and the policy options that express them.
struct NeuralCase {
  cases::World world{.features = 4};
  std::uint32_t width = 6;
  std::uint32_t depth = 2;
  bool biases = false;
  bool diagonal = false;
  bool online = false;
  OptionValues more;  // options that only one policy has

  static constexpr double kAlpha = 0.2;
  static constexpr double kLambda = 0.5;
  static constexpr double kOnlineRate = 0.02;
  static constexpr std::uint64_t kTrainSteps = 300;
  static constexpr double kLearningRate = 0.001;
  static constexpr double kStopLoss = 1e-3;

  NetworkShape shape(std::uint32_t inputs) const { return {inputs, width, depth, biases}; }

  bool training_is_due(std::uint64_t rewards) const {
    return !online && rewards % (rewards <= 200 ? 10 : 50) == 0;
  }

  // Returns the options of the network and its training.
  OptionValues neural_options() const {
    OptionValues options = {{"width", std::to_string(width)},
                            {"depth", std::to_string(depth)},
                            {"biases", biases ? "yes" : "no"},
                            {"training", online ? "online" : "replay"},
                            {"online_rate", number_text(kOnlineRate)},
                            {"train_often_until", "200"},
                            {"train_every_later", "50"},
                            {"train_steps", std::to_string(kTrainSteps)},
                            {"learning_rate", number_text(kLearningRate)},
                            {"stop_loss", number_text(kStopLoss)}};
    options.insert(more.begin(), more.end());
    return options;
  }

  // Returns the neural options and those of the confidence matrix.
  OptionValues options() const {
    OptionValues options = neural_options();
    options["matrix"] = diagonal ? "diagonal" : "full";
    options["alpha"] = number_text(kAlpha);
    options["lambda"] = number_text(kLambda);
    return options;
  }

  std::string name() const {
    return (world.blocks ? "blocks, " : "dense, ") + plain::describe(shape(world.inputs())) +
           (diagonal ? ", diagonal" : ", full") + (online ? ", online" : ", replay");
  }
};

// A network and the samples it learns from.
class Network {
 public:
  Network(const NeuralCase& what, std::uint32_t inputs, std::uint64_t seed)
      : case_(what),
        network_(what.shape(inputs),
                 random_network(what.shape(inputs), Initialisation::kPaper, seed)) {}

  double value(const Features& x) const { return network_.value(x); }

  Eigen::VectorXd gradient(const Features& x) const {
    const std::vector<double> g = network_.gradient(x);
    return Eigen::Map<const Eigen::VectorXd>(g.data(), static_cast<Eigen::Index>(g.size()));
  }

  const plain::PlainNetwork& plain() const { return network_; }

  void add(const Sample& sample) {
    const std::span<const float> values = sample.features.values;
    history_.push_back({{values.begin(), values.end()}, sample.features.offset});
    rewards_.push_back(sample.reward);
    if (case_.online) {
      network_.sgd_step(sample.features, sample.reward, NeuralCase::kOnlineRate);
    }
  }

  // Takes at most this many steps of a fresh Adam over the samples, in a random order. Stops after
  // an epoch with a small loss.
  void train(std::uint64_t steps, Rng rng) {
    plain::PlainAdam adam(network_, NeuralCase::kLearningRate);
    std::vector<std::size_t> order(history_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    double loss = 0.0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto i = static_cast<std::size_t>(step % order.size());
      std::swap(order[i], order[i + static_cast<std::size_t>(rng.below(order.size() - i))]);
      const Features x = history_[order[i]].view();
      loss += 0.5 * std::pow(network_.value(x) - rewards_[order[i]], 2.0);
      adam.step(network_, x, rewards_[order[i]]);
      if (i + 1 == order.size()) {
        if (loss / static_cast<double>(order.size()) <= NeuralCase::kStopLoss) {
          return;
        }
        loss = 0.0;
      }
    }
  }

 private:
  NeuralCase case_;
  plain::PlainNetwork network_;
  std::vector<plain::OwnFeatures> history_;
  std::vector<float> rewards_;
};

// A network and its confidence matrix Z.
class UncertainNetwork {
 public:
  UncertainNetwork(const NeuralCase& what, std::uint32_t inputs, std::uint64_t seed)
      : case_(what), network(what, inputs, seed) {
    const auto size = static_cast<Eigen::Index>(what.shape(inputs).parameter_count());
    z_ = NeuralCase::kLambda * Eigen::MatrixXd::Identity(size, size);
    inverse_ = z_.inverse();
  }

  // alpha sqrt(g^T Z^-1 g)
  double deviation(const Features& x) const {
    const Eigen::VectorXd g = network.gradient(x);
    const double square =
        case_.diagonal ? g.cwiseAbs2().cwiseQuotient(z_.diagonal()).sum() : g.dot(inverse_ * g);
    return NeuralCase::kAlpha * std::sqrt(square);
  }

  void add(const Sample& sample) {
    const Eigen::VectorXd g = network.gradient(sample.features);
    z_ += g * g.transpose();
    if (!case_.diagonal) {
      inverse_ = z_.inverse();
    }
    network.add(sample);
  }

 private:
  NeuralCase case_;
  Eigen::MatrixXd z_;
  Eigen::MatrixXd inverse_;

 public:
  Network network;
};

// Plays rounds with a policy and compares every score and choice with a textbook. A textbook has
// start(user, sample), score(round id, arm) and learn(arm, reward).
template <class Textbook>
void expect_matches(Policy& policy, Textbook& textbook, const cases::World& world,
                    std::uint64_t rounds = kThreadSanitized ? 100 : 320) {
  const cases::OwnRound start = cases::draw_start(world);
  for (const Arm& arm : start.round.arms) {
    const Sample sample{arm.features, start.rewards[index(arm.index)]};
    policy.start(arm.user, sample);
    textbook.start(arm.user, sample);
  }
  for (std::uint64_t id = 0; id < rounds; ++id) {
    const cases::OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> scores = policy.scores(own.round);
    std::vector<double> expected;
    for (const Arm& arm : own.round.arms) {
      expected.push_back(textbook.score(own.round.id, arm));
      const Score& score = scores[index(arm.index)];
      ASSERT_NEAR(score.value, expected.back(), kTolerance) << "round " << id;
      ASSERT_NEAR(score.value, cases::sum_of(score), 1e-12);
    }
    const ArmIndex choice = policy.choose(own.round);
    ASSERT_GE(expected[index(choice)], std::ranges::max(expected) - 2.0 * kTolerance)
        << "round " << id;
    const float reward = own.rewards[index(choice)];
    policy.learn(own.round.id, own.arm(choice), reward);
    textbook.learn(own.arm(choice), reward);
  }
}

}  // namespace mcnb::textbook
