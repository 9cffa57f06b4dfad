#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "mcnb/bandit/confidence_matrix.h"
#include "mcnb/bandit/history.h"
#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/numeric/training.h"

namespace mcnb {
namespace {

constexpr std::size_t kWholeByItself = 3'500;  // parameters up to which `auto` keeps Z whole
constexpr std::size_t kMostArmsTogether = 32;  // whose gradients are held at once
constexpr std::array kEverybody{UserId{0}};    // all users share one history

enum class Matrix { kAuto, kFull, kDiagonal };
enum class Training { kReplay, kOnline };

struct NeuUcbOptions {
  double alpha = 0.1;
  double lambda = 1.0;
  Matrix matrix = Matrix::kAuto;
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  Initialisation initialisation = Initialisation::kPaper;
  bool biases = false;
  Training training = Training::kReplay;
  double online_rate = 0.05;

  // Of training = replay.
  std::uint64_t train_every = 10;          // rewards, at first
  std::uint64_t train_often_until = 1000;  // rewards
  std::uint64_t train_every_later = 100;
  std::uint64_t train_steps = 1500;
  Optimiser optimiser = Optimiser::kAdam;
  double learning_rate = 1e-3;
  double stop_loss = 1e-3;

  std::uint64_t history_limit = 0;
};

OptionTable<NeuUcbOptions> option_table() {
  using Options = NeuUcbOptions;
  OptionTable<Options> table;
  table.number("alpha", &Options::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("lambda", &Options::lambda, {1e-6, 1e6}, "Z = lambda I at the start")
      .choice("matrix", &Options::matrix,
              {{"auto", Matrix::kAuto}, {"full", Matrix::kFull}, {"diagonal", Matrix::kDiagonal}},
              "how Z is kept; auto: full up to 3,500 parameters")
      .count("width", &Options::width, {1, NetworkShape::kMaxWidth}, "units of a layer")
      .count("depth", &Options::depth, {2, NetworkShape::kMaxDepth}, "weight matrices")
      .choice("initialisation", &Options::initialisation,
              {{"paper", Initialisation::kPaper}, {"symmetric", Initialisation::kSymmetric}},
              "of the network")
      .yes_no("biases", &Options::biases, "layers have biases")
      .choice("training", &Options::training,
              {{"replay", Training::kReplay}, {"online", Training::kOnline}},
              "now and then on all samples, or a step on each as it comes")
      .number("online_rate", &Options::online_rate, {1e-9, 10.0},
              "learning rate of training=online")
      .count("train_every", &Options::train_every, {1, 1e9}, "rewards between trainings, at first")
      .count("train_often_until", &Options::train_often_until, {0, 1e15},
             "rewards until trainings become rarer")
      .count("train_every_later", &Options::train_every_later, {1, 1e9},
             "rewards between trainings, after that")
      .count("train_steps", &Options::train_steps, {0, 4294967295.0},
             "the most steps of one training")
      .choice("optimiser", &Options::optimiser,
              {{"adam", Optimiser::kAdam}, {"sgd", Optimiser::kSgd}}, "of training=replay")
      .number("learning_rate", &Options::learning_rate, {1e-9, 10.0}, "of training=replay")
      .number("stop_loss", &Options::stop_loss, {0.0, 1e9},
              "mean loss of an epoch that ends a training")
      .count("history_limit", &Options::history_limit, {0, 4294967295.0},
             "samples that trainings draw on, a uniform choice of all; 0: all");
  return table;
}

NeuUcbOptions parse(const OptionValues& values) {
  NeuUcbOptions options;
  option_table().set_all(options, values);
  if (options.initialisation == Initialisation::kSymmetric && options.width % 2 != 0) {
    refuse_option("width", "an even number where initialisation=symmetric",
                  std::to_string(options.width));
  }
  return options;
}

NetworkShape shape_of(const NeuUcbOptions& options, std::uint32_t inputs) {
  return {.inputs = inputs,
          .width = static_cast<std::uint32_t>(options.width),
          .depth = static_cast<std::uint32_t>(options.depth),
          .biases = options.biases};
}

ConfidenceMatrix make_matrix(const NeuUcbOptions& options, const NetworkShape& shape) {
  const std::size_t parameters = shape.parameter_count();
  const bool whole = options.matrix == Matrix::kFull ||
                     (options.matrix == Matrix::kAuto && parameters <= kWholeByItself);
  if (whole && parameters > ConfidenceMatrix::kMostWhole) {
    refuse_option("matrix",
                  fmt::format("auto or diagonal for a network of {} parameters (full: at most {})",
                              parameters, ConfidenceMatrix::kMostWhole),
                  "full");
  }
  return {parameters, options.lambda,
          whole ? ConfidenceMatrix::Form::kWhole : ConfidenceMatrix::Form::kDiagonal};
}

// NeuUCB-ONE: one network for all users. Scores an arm by f(x) + alpha sqrt(g^T Z^-1 g), where g is
// the gradient of f at x and Z = lambda I + the sum of g g^T over the arms whose rewards were
// learned, each g as it was when its reward came (feedback may be late, and a round without any
// has taught nothing). Start data count as such arms.
//
// training = replay: after every so many rewards the network is trained on all samples, in random
// order, from where it stands, with a fresh optimiser. training = online: one gradient step on each
// sample as it comes.
//
// Z is kept whole up to 3,500 parameters and by its diagonal beyond. Arms cost time in proportion
// to their own features, not to the whole vector that a block is part of (with a whole Z: to its
// square, and learning touches all of Z).
class NeuUcbOne final : public Policy {
 public:
  NeuUcbOne(const NeuUcbOptions& options, const PolicySetup& setup)
      : options_(options),
        shape_(shape_of(options, setup.inputs)),
        seed_(setup.seed),
        users_(setup.users),
        threads_(*setup.threads),
        network_(random_network(shape_, options.initialisation, setup.seed)),
        matrix_(make_matrix(options, shape_)),
        history_(setup.seed, static_cast<std::size_t>(options.history_limit)) {
    history_.add_users(kEverybody.size());
  }

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override { users_.add(count); }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, users_.count(), shape_);
    take_in(sample, [&] { return fmt::format("start of user {}", index(user)); });
  }

  ArmIndex choose(const Round& round) override { return highest(scores(round)); }

  std::vector<Score> scores(const Round& round) override {
    check_round(round, users_.count(), shape_);
    std::vector<Score> scores(round.arms.size());
    const std::size_t share =
        (scores.size() + threads_.thread_count() - 1) / threads_.thread_count();
    threads_.parallel_for(scores.size(), std::min(share, kMostArmsTogether),
                          [&](std::size_t begin, std::size_t end) {
                            score_arms(round, begin, std::span(scores).subspan(begin, end - begin));
                          });
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check_feedback(round, arm, reward, users_.count(), shape_);
    take_in({arm.features, reward}, [&] {
      return fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
    });
    ++rewards_;
    if (options_.training == Training::kReplay && training_is_due()) {
      replay();
    }
  }

  StepCounts steps() const override { return {.training = steps_}; }

  std::size_t memory_bytes() const override {
    return sizeof *this + network_.capacity() * sizeof(float) + matrix_.memory_bytes() +
           history_.memory_bytes();
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    writer.write(rewards_);
    writer.write(steps_);
    writer.write_all(network_);
    matrix_.save(writer);
    history_.save(writer);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    rewards_ = reader.read<std::uint64_t>();
    steps_ = reader.read<std::uint64_t>();
    std::vector<float> network = reader.read_all<float>(network_.size());
    if (network.size() != network_.size()) {
      reader.fail("the network has another size");
    }
    network_ = std::move(network);
    matrix_.load(reader);
    history_.load(reader, shape_);
    if (history_.user_count() != kEverybody.size()) {
      reader.fail("there is not one history for all users");
    }
  }

 private:
  // Scores the arms from `begin` on.
  void score_arms(const Round& round, std::size_t begin, std::span<Score> scores) const {
    GradientFactors factors;
    std::vector<SparseGradient> gradients(scores.size());
    std::vector<double> squares(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const Arm& arm = round.arms[begin + i];
      find_gradient(shape_, network_, arm.features, factors);
      check_value(factors.value, [&] {
        return fmt::format("round {}, arm {}", index(round.id), index(arm.index));
      });
      expand_gradient(shape_, factors, gradients[i]);
      scores[i].estimate = factors.value;
    }
    matrix_.find_squares(gradients, squares);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i].meta_bonus = options_.alpha * std::sqrt(squares[i]);
      scores[i].value = scores[i].estimate + scores[i].meta_bonus;
      scores[i].cluster_size = users_.count();
    }
  }

  // Z and the history take a sample; with training = online, the network too. `place` names the
  // sample in errors.
  template <class Place>
  void take_in(const Sample& sample, Place place) {
    find_gradient(shape_, network_, sample.features, factors_);
    check_value(factors_.value, place);
    expand_gradient(shape_, factors_, gradient_);
    if (options_.training == Training::kReplay) {
      history_.add(kEverybody, sample);
    }
    matrix_.add(gradient_);
    if (options_.training == Training::kOnline) {
      float* const network = network_.data();
      kernels::sgd_step(shape_, {&network, 1}, sample.features.values, sample.features.offset,
                        sample.reward, static_cast<float>(options_.online_rate));
      ++steps_;
    }
  }

  template <class Place>
  static void check_value(float value, Place place) {
    if (!std::isfinite(value)) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: the network's value is {}; the features are too large", place(), value));
    }
  }

  bool training_is_due() const {
    const bool often = rewards_ <= options_.train_often_until;
    return rewards_ % (often ? options_.train_every : options_.train_every_later) == 0;
  }

  void replay() {
    Rng rng(seed_, Stream::kTrainingOrder, rewards_);
    const TrainingOptions training{.optimiser = options_.optimiser,
                                   .learning_rate = static_cast<float>(options_.learning_rate),
                                   .step_limit = options_.train_steps,
                                   .stop_loss = options_.stop_loss};
    steps_ +=
        train_network(shape_, network_, history_.all_samples(), training, rng, training_scratch_)
            .steps;
  }

  NeuUcbOptions options_;
  NetworkShape shape_;
  std::uint64_t seed_;
  UserCount users_;
  ThreadPool& threads_;
  std::vector<float> network_;
  ConfidenceMatrix matrix_;
  Histories history_;  // empty where training = online
  std::uint64_t rewards_ = 0;
  std::uint64_t steps_ = 0;

  GradientFactors factors_;
  SparseGradient gradient_;
  TrainingScratch training_scratch_;
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<NeuUcbOne>(parse(options), setup);
}

}  // namespace

PolicyKind neuucb_one_policy() {
  return {.name = "neuucb-one",
          .help = "one neural network for all users, with upper confidence bounds",
          .paper = "Zhou, Li, Gu: Neural Contextual Bandits with UCB-based Exploration, ICML 2020",
          .options = [] { return option_table().help(); },
          .resolve = [](const OptionValues& o) { return option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
