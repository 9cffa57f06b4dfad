#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"
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
              "after t rewards that is epsilon / (1 + decay t)")
      .part(&Options::neural, neural_option_table());
  return table;
}

EpsilonGreedyOptions parse(const OptionValues& values) {
  EpsilonGreedyOptions options;
  option_table().set_all(options, values);
  return options;
}

// One network for all users. Chooses the arm with the highest f(x) or, with probability epsilon, a
// uniformly random one, whose bonus then lifts it above all others. The draws are addressed by the
// seed and the round, so that whoever asks again sees the same.
class EpsilonGreedy final : public Policy {
 public:
  EpsilonGreedy(const EpsilonGreedyOptions& options, const PolicySetup& setup)
      : options_(options),
        seed_(setup.seed),
        users_(setup.users),
        threads_(*setup.threads),
        model_(options.neural, setup.inputs, setup.seed) {}

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
    const std::size_t cost = round.arms[0].features.values.size() * shape().width;
    threads_.parallel_for(scores.size(), kWorthAThread / cost + 1,
                          [&](std::size_t begin, std::size_t end) {
                            std::vector<float> activations(shape().hidden_count());
                            for (std::size_t i = begin; i < end; ++i) {
                              scores[i].estimate = estimate(round, i, activations);
                            }
                          });
    for (Score& score : scores) {
      score.value = score.estimate;
      score.cluster_size = users_.count();
    }
    Rng rng(seed_, Stream::kEpsilonGreedy, index(round.id));
    if (rng.chance(epsilon())) {
      const double best = scores[index(highest(scores))].value;
      Score& drawn = scores[static_cast<std::size_t>(rng.below(scores.size()))];
      drawn.meta_bonus = best - drawn.estimate + std::max(1.0, std::abs(best));
      drawn.value = drawn.estimate + drawn.meta_bonus;
    }
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
  std::size_t memory_bytes() const override { return sizeof *this + model_.memory_bytes(); }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    model_.save(writer);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
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

  float estimate(const Round& round, std::size_t place, std::vector<float>& activations) const {
    const float estimate = value(round.arms[place].features, activations);
    check_value(estimate, [&] { return fmt::format("round {}, arm {}", index(round.id), place); });
    return estimate;
  }

  // `place` names the sample in errors.
  template <class Place>
  void take_in(const Sample& sample, Place place) {
    std::vector<float> activations(shape().hidden_count());
    check_value(value(sample.features, activations), place);
    model_.take_in(sample, place);
  }

  EpsilonGreedyOptions options_;
  std::uint64_t seed_;
  UserCount users_;
  ThreadPool& threads_;
  NeuralModel model_;
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<EpsilonGreedy>(parse(options), setup);
}

}  // namespace

PolicyKind epsilon_greedy_policy() {
  return {.name = "epsilon-greedy",
          .help = "one neural network for all users; now and then a random arm",
          .paper = "Sutton, Barto: Reinforcement Learning: An Introduction, MIT Press 1998",
          .options = [] { return option_table().help(); },
          .resolve = [](const OptionValues& o) { return option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
