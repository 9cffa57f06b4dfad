#include <algorithm>
#include <cmath>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/input_names.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications

struct EpsilonGreedyOptions {
  double epsilon = 0.05;
  double decay = 0.0;
  NeuralOptions neural;
};

OptionTable<EpsilonGreedyOptions> option_table() {
  using Options = EpsilonGreedyOptions;
  OptionTable<Options> table;
  table.number("epsilon", &Options::epsilon, {0.0, 1.0}, "how often an arm is drawn at random")
      .number("decay", &Options::decay, {0.0, 1e6},
              "after t rewards the probability is epsilon / (1 + decay t)")
      .part(&Options::neural, neural_option_table());
  return table;
}

// One network for all users. Chooses the arm with the highest f(x) or, with probability epsilon, a
// uniformly random one; the score part "draw" then lifts that arm above all others. The draws are
// addressed by the seed and the round, so equal calls give equal answers.
class EpsilonGreedy final : public BasicPolicy {
 public:
  EpsilonGreedy(const EpsilonGreedyOptions& options, const PolicySetup& setup)
      : BasicPolicy(setup),
        options_(options),
        seed_(setup.seed),
        threads_(*setup.threads),
        model_(options.neural, setup.inputs, setup.seed) {}

  void start(UserId user, const Sample& sample) override {
    check(user, sample);
    take_in(sample, [&] { return start_name(user); });
  }

  std::vector<Score> scores(const Round& round) override {
    check(round);
    std::vector<Score> scores(round.arms.size());
    const std::size_t cost = round.arms[0].features.values.size() * shape().width;
    threads_.parallel_for(scores.size(), kWorthAThread / cost + 1,
                          [&](std::size_t begin, std::size_t end) {
                            std::vector<float> activations(shape().hidden_count());
                            for (std::size_t i = begin; i < end; ++i) {
                              scores[i].estimate = estimate(round, i, activations);
                            }
                          });
    const auto score_of = [&](double estimate, double draw) {
      return Score(estimate, {{"draw", draw}}, user_count());
    };
    for (Score& score : scores) {
      score = score_of(score.estimate, 0.0);
    }
    Rng rng(seed_, Stream::kEpsilonGreedy, index(round.id));
    if (rng.chance(epsilon())) {
      const double best = scores[index(highest(scores))].value;
      Score& drawn = scores[static_cast<std::size_t>(rng.below(scores.size()))];
      const double lift = best - drawn.estimate + std::max(1.0, std::abs(best));
      drawn = score_of(drawn.estimate, lift);
    }
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    take_in({arm.features, reward}, [&] { return feedback_name(round, arm); });
    model_.count_reward();
  }

  StepCounts steps() const override { return {.training = model_.step_count()}; }
  std::size_t memory_bytes() const override { return sizeof *this + model_.memory_bytes(); }

  void save(StateWriter& writer) const override {
    save_users(writer);
    model_.save(writer);
  }

  void load(StateReader& reader) override {
    load_users(reader);
    model_.load(reader);
  }

 private:
  const NetworkShape& shape() const { return model_.shape(); }

  double epsilon() const {
    return options_.epsilon / (1.0 + options_.decay * static_cast<double>(model_.reward_count()));
  }

  float value(const Features& x, std::vector<float>& activations) const {
    return kernels::forward(shape(), model_.network().data(), x.values, x.offset,
                            activations.data());
  }

  float estimate(const Round& round, std::size_t i, std::vector<float>& activations) const {
    const float estimate = value(round.arms[i].features, activations);
    check_value(estimate, [&] { return arm_name(round.id, i); });
    return estimate;
  }

  // `where` names the sample in errors.
  template <class Where>
  void take_in(const Sample& sample, Where where) {
    std::vector<float> activations(shape().hidden_count());
    check_value(value(sample.features, activations), where);
    model_.take_in(sample, where);
  }

  EpsilonGreedyOptions options_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  NeuralModel model_;
};

}  // namespace

PolicyKind epsilon_greedy_policy() {
  return policy_kind<EpsilonGreedy>(
      {.name = "epsilon-greedy",
       .help = "one neural network for all users; now and then a random arm",
       .paper = "Sutton, Barto: Reinforcement Learning: An Introduction, MIT Press 1998"},
      option_table(), [](const EpsilonGreedyOptions& options, const PolicySetup& setup) {
        return network_policy_size(options.neural.network.shape(setup.inputs),
                                   NetworkUncertainty::kNone);
      });
}

}  // namespace mcnb
