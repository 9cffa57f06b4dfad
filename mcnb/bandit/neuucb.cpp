#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/confidence_matrix.h"
#include "mcnb/bandit/neural_model.h"
#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kWholeByItself = 3'500;  // parameters up to which `auto` keeps Z whole
constexpr std::size_t kMostArmsTogether = 32;  // whose gradients are held at once

enum class Matrix { kAuto, kFull, kDiagonal };

struct NeuUcbOptions {
  double alpha = 0.1;
  double lambda = 1.0;
  Matrix matrix = Matrix::kAuto;
  NeuralOptions neural;
};

OptionTable<NeuUcbOptions> option_table() {
  using Options = NeuUcbOptions;
  OptionTable<Options> table;
  table.number("alpha", &Options::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("lambda", &Options::lambda, {1e-6, 1e6}, "Z = lambda I at the start")
      .choice("matrix", &Options::matrix,
              {{"auto", Matrix::kAuto}, {"full", Matrix::kFull}, {"diagonal", Matrix::kDiagonal}},
              "how Z is kept; auto: full up to 3,500 parameters")
      .part(&Options::neural, neural_option_table());
  return table;
}

NeuUcbOptions parse(const OptionValues& values) {
  NeuUcbOptions options;
  option_table().set_all(options, values);
  check_neural_options(options.neural);
  return options;
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
// Z is kept whole up to 3,500 parameters and by its diagonal beyond. Arms cost time in proportion
// to their own features, not to the whole vector that a block is part of (with a whole Z: to its
// square, and learning touches all of Z).
class NeuUcbOne final : public Policy {
 public:
  NeuUcbOne(const NeuUcbOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users),
        threads_(*setup.threads),
        model_(options.neural, setup.inputs, setup.seed),
        matrix_(make_matrix(options, model_.shape())) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override { users_.add(count); }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, users_.count(), shape());
    take_in(sample, [&] { return fmt::format("start of user {}", index(user)); });
  }

  ArmIndex choose(const Round& round) override { return highest(scores(round)); }

  std::vector<Score> scores(const Round& round) override {
    check_round(round, users_.count(), shape());
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
    check_feedback(round, arm, reward, users_.count(), shape());
    take_in({arm.features, reward}, [&] {
      return fmt::format("feedback on round {}, arm {}", index(round), index(arm.index));
    });
    model_.count_reward();
  }

  StepCounts steps() const override { return {.training = model_.step_count()}; }

  std::size_t memory_bytes() const override {
    return sizeof *this + model_.memory_bytes() + matrix_.memory_bytes();
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    model_.save(writer);
    matrix_.save(writer);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    model_.load(reader);
    matrix_.load(reader);
  }

 private:
  const NetworkShape& shape() const { return model_.shape(); }

  // Scores the arms from `begin` on.
  void score_arms(const Round& round, std::size_t begin, std::span<Score> scores) const {
    GradientFactors factors;
    std::vector<SparseGradient> gradients(scores.size());
    std::vector<double> squares(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const Arm& arm = round.arms[begin + i];
      find_gradient(shape(), model_.network(), arm.features, factors);
      check_value(factors.value, [&] {
        return fmt::format("round {}, arm {}", index(round.id), index(arm.index));
      });
      expand_gradient(shape(), factors, gradients[i]);
      scores[i].estimate = factors.value;
    }
    matrix_.find_squares(gradients, squares);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i].meta_bonus = options_.alpha * std::sqrt(squares[i]);
      scores[i].value = scores[i].estimate + scores[i].meta_bonus;
      scores[i].cluster_size = users_.count();
    }
  }

  // Z and the model take a sample; `place` names it in errors.
  template <class Place>
  void take_in(const Sample& sample, Place place) {
    find_gradient(shape(), model_.network(), sample.features, factors_);
    check_value(factors_.value, place);
    expand_gradient(shape(), factors_, gradient_);
    model_.take_in(sample);
    matrix_.add(gradient_);
  }

  NeuUcbOptions options_;
  UserCount users_;
  ThreadPool& threads_;
  NeuralModel model_;
  ConfidenceMatrix matrix_;

  GradientFactors factors_;
  SparseGradient gradient_;
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
