#include "mcnb/bandit/neural/neuucb.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/input_names.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostArmsTogether = 32;   // whose gradients are held at once
constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications

enum class Exploration { kUpperBound, kDraw };

// One network f for all users, and Z = lambda I + sum g g^T over all rewards and start data, where
// g is the gradient of f at the arm at the time when its reward came.
//
// NeuUCB-ONE scores an arm by the upper bound f(x) + alpha sqrt(g^T Z^-1 g). NeuralTS scores it by
// a draw from the normal distribution of mean f(x) and deviation alpha sqrt(g^T Z^-1 g). The draw
// is addressed by the seed, the round and the arm, so equal calls give equal answers.
//
// Departures from the paper of NeuUCB:
// - The paper has f = sqrt(m) W_L ... with Z = lambda I + sum g g^T / m and the bonus
//   gamma_t sqrt(g^T Z^-1 g / m). Here f has no sqrt(m), so g has none either and 1/m is left out.
// - The paper adds m lambda |theta - theta_0|^2 / 2 to the loss and starts every training at
//   theta_0. Here nothing is added, trainings go on from the present parameters, with Adam, and
//   stop early (replay_options.h), as those of all neural policies do.
// - gamma_t of the paper grows with t, with constants that cannot be known. Here it is alpha.
class SharedNeuralBandit final : public BasicPolicy {
 public:
  SharedNeuralBandit(const NeuUcbOptions& options, Exploration exploration,
                     const PolicySetup& setup)
      : BasicPolicy(setup),
        options_(options),
        exploration_(exploration),
        seed_(setup.seed),
        threads_(*setup.threads),
        model_(options.neural, setup.inputs, setup.seed),
        matrix_(options.confidence, model_.shape()) {}

  void start(UserId user, const Sample& sample) override {
    check(user, sample);
    take_in(sample, [&] { return start_name(user); });
  }

  // Most arms cannot win, however uncertain they are: choose skips their squares, the costliest
  // part.
  ArmIndex choose(const Round& round) override {
    check(round);
    find_candidates(round);
    if (candidates_.size() > 1) {
      candidate_scores_.resize(candidates_.size());
      score_arms(round, candidates_, candidate_scores_);
    } else {
      candidate_scores_.assign(1, {});
    }
    return ArmIndex{candidates_[index(highest(candidate_scores_))]};
  }

  std::vector<Score> scores(const Round& round) override {
    check(round);
    candidates_.resize(round.arms.size());
    std::iota(candidates_.begin(), candidates_.end(), 0U);
    std::vector<Score> scores(round.arms.size());
    score_arms(round, candidates_, scores);
    return scores;
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores_of_part(const Round& round, std::size_t begin,
                                    std::size_t end) override {
    check(round);
    candidates_.resize(end - begin);
    std::iota(candidates_.begin(), candidates_.end(), static_cast<std::uint32_t>(begin));
    std::vector<Score> scores(end - begin);
    score_arms(round, candidates_, scores);
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    take_in({arm.features, reward}, [&] { return feedback_name(round, arm); });
    model_.count_reward();
  }

  StepCounts steps() const override { return {.training = model_.step_count()}; }

  std::size_t memory_bytes() const override {
    return sizeof *this + model_.memory_bytes() + matrix_.memory_bytes();
  }

  void save(StateWriter& writer) const override {
    save_users(writer);
    model_.save(writer);
    matrix_.save(writer);
  }

  void load(StateReader& reader) override {
    load_users(reader);
    model_.load(reader);
    matrix_.load(reader);
  }

 private:
  const NetworkShape& shape() const { return model_.shape(); }

  // Fills gradients_ with those of the given arms, in their order.
  void find_gradients(const Round& round, std::span<const std::uint32_t> arms) {
    gradients_.resize(std::max(gradients_.size(), arms.size()));
    const std::size_t cost = round.arms[arms[0]].features.values.size() * shape().width;
    threads_.parallel_for(
        arms.size(), kWorthAThread / cost + 1, [&](std::size_t first, std::size_t end) {
          for (std::size_t i = first; i < end; ++i) {
            const Arm& arm = round.arms[arms[i]];
            find_gradient(shape(), model_.network(), arm.features, gradients_[i]);
            check_value(gradients_[i].value, [&] { return arm_name(round.id, index(arm.index)); });
          }
        });
  }

  // Calls body(group, index of its first arm) for groups of a few arms.
  template <class Body>
  static void for_groups(std::span<const std::uint32_t> arms, Body body) {
    for (std::size_t begin = 0; begin < arms.size(); begin += kMostArmsTogether) {
      body(arms.subspan(begin, std::min(kMostArmsTogether, arms.size() - begin)), begin);
    }
  }

  // Sets candidates_ to the arms whose score may be the highest. A score lies between its value
  // without uncertainty and that with the largest possible one. An arm is out if its upper end is
  // below the lower end of another arm.
  void find_candidates(const Round& round) {
    const std::size_t count = round.arms.size();
    candidates_.resize(count);
    std::iota(candidates_.begin(), candidates_.end(), 0U);
    highest_values_.resize(count);
    double reached = -std::numeric_limits<double>::infinity();
    for_groups(candidates_, [&](std::span<const std::uint32_t> arms, std::size_t) {
      find_gradients(round, arms);
      for (std::size_t i = 0; i < arms.size(); ++i) {
        const Score certain = make_score(round, arms[i], gradients_[i], 0.0);
        const Score uncertain =
            make_score(round, arms[i], gradients_[i], matrix_.largest_square(gradients_[i]));
        highest_values_[arms[i]] = std::max(certain.value, uncertain.value);
        reached = std::max(reached, std::min(certain.value, uncertain.value));
      }
    });
    std::erase_if(candidates_, [&](std::uint32_t arm) { return highest_values_[arm] < reached; });
  }

  void score_arms(const Round& round, std::span<const std::uint32_t> arms,
                  std::span<Score> scores) {
    for_groups(arms, [&](std::span<const std::uint32_t> group, std::size_t begin) {
      find_gradients(round, group);
      squares_.resize(group.size());
      matrix_.find_squares(threads_, std::span(gradients_).first(group.size()), squares_);
      for (std::size_t i = 0; i < group.size(); ++i) {
        scores[begin + i] = make_score(round, group[i], gradients_[i], squares_[i]);
      }
    });
  }

  Score make_score(const Round& round, std::uint32_t arm, const GradientFactors& gradient,
                   double square) const {
    const char* const part = exploration_ == Exploration::kUpperBound ? "uncertainty" : "draw";
    const double deviations = direction(round.id, round.arms[arm].index);
    return Score(options_.confidence.counted(gradient.value),
                 {{part, options_.confidence.alpha * std::sqrt(square) * deviations}},
                 user_count());
  }

  // The number of deviations between the estimate and the score.
  double direction(RoundId round, ArmIndex arm) const {
    return exploration_ == Exploration::kUpperBound
               ? 1.0
               : Rng(seed_, Stream::kThompson, index(round), static_cast<std::uint32_t>(index(arm)))
                     .normal();
  }

  // Adds a sample to Z and the model; `where` names it in errors.
  template <class Where>
  void take_in(const Sample& sample, Where where) {
    gradients_.resize(std::max<std::size_t>(gradients_.size(), 1));
    GradientFactors& gradient = gradients_[0];
    find_gradient(shape(), model_.network(), sample.features, gradient);
    check_value(gradient.value, where);
    model_.take_in(sample, where);
    matrix_.add(threads_, gradient);
  }

  NeuUcbOptions options_;
  Exploration exploration_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  NeuralModel model_;
  ConfidenceMatrix matrix_;

  // Scratch.
  std::vector<GradientFactors> gradients_;
  std::vector<double> squares_;
  std::vector<std::uint32_t> candidates_;  // arm indices
  std::vector<Score> candidate_scores_;
  std::vector<double> highest_values_;  // by arm: the most that its score can be
};

std::unique_ptr<Policy> make_neuralts(const NeuUcbOptions& options, const PolicySetup& setup) {
  return std::make_unique<SharedNeuralBandit>(options, Exploration::kDraw, setup);
}

}  // namespace

OptionTable<NeuUcbOptions> neuucb_option_table() {
  OptionTable<NeuUcbOptions> table;
  table.part(&NeuUcbOptions::confidence, confidence_option_table())
      .part(&NeuUcbOptions::neural, neural_option_table());
  return table;
}

PolicySize neuucb_size(const NeuUcbOptions& options, const PolicySetup& setup) {
  const NetworkShape shape = options.neural.network.shape(setup.inputs);
  return network_policy_size(shape, ConfidenceMatrix::kind_of(options.confidence, shape));
}

std::unique_ptr<Policy> make_neuucb_one(const NeuUcbOptions& options, const PolicySetup& setup) {
  return std::make_unique<SharedNeuralBandit>(options, Exploration::kUpperBound, setup);
}

PolicyKind neuucb_one_policy() {
  return policy_kind_by(
      {.name = "neuucb-one",
       .help = "one neural network for all users, with upper confidence bounds",
       .paper =
           "Zhou, Li, Gu: Neural Contextual Bandits with UCB-based Exploration, ICML 2020. Here "
           "f has no factor sqrt(m), and so Z has no 1/m; trainings have no regulariser m "
           "lambda |theta - theta_0|^2 / 2, use Adam, stop early, and continue from the "
           "parameters of the last one; alpha is constant"},
      neuucb_option_table(), make_neuucb_one, neuucb_size);
}

PolicyKind neuralts_policy() {
  return policy_kind_by(
      {.name = "neuralts",
       .help = "one neural network for all users; draws from what it holds possible",
       .paper = "Zhang, Zhou, Li, Gu: Neural Thompson Sampling, ICLR 2021"},
      neuucb_option_table(), make_neuralts, neuucb_size);
}

}  // namespace mcnb
