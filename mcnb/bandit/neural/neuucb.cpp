#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mcnb/bandit/neural/confidence_matrix.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostArmsTogether = 32;   // whose gradients are held at once
constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications

struct NeuUcbOptions {
  ConfidenceOptions confidence;
  NeuralOptions neural;
};

OptionTable<NeuUcbOptions> option_table() {
  OptionTable<NeuUcbOptions> table;
  table.part(&NeuUcbOptions::confidence, confidence_option_table())
      .part(&NeuUcbOptions::neural, neural_option_table());
  return table;
}

NeuUcbOptions parse(const OptionValues& values) {
  NeuUcbOptions options;
  option_table().set_all(options, values);
  return options;
}

enum class Exploration { kUpperBound, kDraw };

// One network for all users, and Z = lambda I + the sum of g g^T over the arms whose rewards were
// learned, g being the gradient of f at the arm as it was when its reward came (feedback may be
// late, and a round without any has taught nothing). Start data count as such arms.
//
// NeuUCB-ONE scores an arm by the upper bound f(x) + alpha sqrt(g^T Z^-1 g); NeuralTS by a draw
// from the normal distribution of mean f(x) and deviation alpha sqrt(g^T Z^-1 g), addressed by the
// seed, the round and the arm, so that whoever asks again sees the same.
class SharedNeuralBandit final : public Policy {
 public:
  SharedNeuralBandit(const NeuUcbOptions& options, Exploration exploration,
                     const PolicySetup& setup)
      : options_(options),
        exploration_(exploration),
        seed_(setup.seed),
        users_(setup.users),
        threads_(*setup.threads),
        model_(options.neural, setup.inputs, setup.seed),
        matrix_(options.confidence, model_.shape()) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override { users_.add(count); }

  void start(UserId user, const Sample& sample) override {
    check_start(user, sample, users_.count(), shape());
    take_in(sample, [&] { return fmt::format("start of user {}", index(user)); });
  }

  // Most arms cannot win however uncertain they are: their squares, which cost the most, are not
  // looked for.
  ArmIndex choose(const Round& round) override {
    check_round(round, users_.count(), shape());
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
    check_round(round, users_.count(), shape());
    candidates_.resize(round.arms.size());
    std::iota(candidates_.begin(), candidates_.end(), 0U);
    std::vector<Score> scores(round.arms.size());
    score_arms(round, candidates_, scores);
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

  // Fills gradients_ with those of the arms at the places, in the same order.
  void find_gradients(const Round& round, std::span<const std::uint32_t> places) {
    gradients_.resize(std::max(gradients_.size(), places.size()));
    const std::size_t cost = round.arms[places[0]].features.values.size() * shape().width;
    threads_.parallel_for(
        places.size(), kWorthAThread / cost + 1, [&](std::size_t first, std::size_t end) {
          for (std::size_t i = first; i < end; ++i) {
            const Arm& arm = round.arms[places[i]];
            find_gradient(shape(), model_.network(), arm.features, gradients_[i]);
            check_value(gradients_[i].value, [&] {
              return fmt::format("round {}, arm {}", index(round.id), index(arm.index));
            });
          }
        });
  }

  // Calls body(some places, number of the first) for a few of them at a time.
  template <class Body>
  static void for_groups(std::span<const std::uint32_t> places, Body body) {
    for (std::size_t begin = 0; begin < places.size(); begin += kMostArmsTogether) {
      body(places.subspan(begin, std::min(kMostArmsTogether, places.size() - begin)), begin);
    }
  }

  // The places of the arms whose score may be the highest, into candidates_: those that would not
  // lose to another one if their own uncertainty were as large as it can be, and that one's zero
  // (or the other way round, where a draw is below the estimate).
  void find_candidates(const Round& round) {
    const std::size_t count = round.arms.size();
    candidates_.resize(count);
    std::iota(candidates_.begin(), candidates_.end(), 0U);
    highest_values_.resize(count);
    double reached = -std::numeric_limits<double>::infinity();
    for_groups(candidates_, [&](std::span<const std::uint32_t> places, std::size_t) {
      find_gradients(round, places);
      for (std::size_t i = 0; i < places.size(); ++i) {
        const Score certain = make_score(round, places[i], gradients_[i], 0.0);
        const Score uncertain =
            make_score(round, places[i], gradients_[i], matrix_.largest_square(gradients_[i]));
        highest_values_[places[i]] = std::max(certain.value, uncertain.value);
        reached = std::max(reached, std::min(certain.value, uncertain.value));
      }
    });
    std::erase_if(candidates_,
                  [&](std::uint32_t place) { return highest_values_[place] < reached; });
  }

  void score_arms(const Round& round, std::span<const std::uint32_t> places,
                  std::span<Score> scores) {
    for_groups(places, [&](std::span<const std::uint32_t> group, std::size_t begin) {
      find_gradients(round, group);
      squares_.resize(group.size());
      matrix_.find_squares(threads_, std::span(gradients_).first(group.size()), squares_);
      for (std::size_t i = 0; i < group.size(); ++i) {
        scores[begin + i] = make_score(round, group[i], gradients_[i], squares_[i]);
      }
    });
  }

  Score make_score(const Round& round, std::uint32_t place, const GradientFactors& gradient,
                   double square) const {
    Score score{.estimate = options_.confidence.counted(gradient.value),
                .cluster_size = users_.count()};
    score.meta_bonus = options_.confidence.alpha * std::sqrt(square) *
                       direction(round.id, round.arms[place].index);
    score.value = score.estimate + score.meta_bonus;
    return score;
  }

  // How many deviations above the estimate the score is.
  double direction(RoundId round, ArmIndex arm) const {
    return exploration_ == Exploration::kUpperBound
               ? 1.0
               : Rng(seed_, Stream::kThompson, index(round), static_cast<std::uint32_t>(index(arm)))
                     .normal();
  }

  // Z and the model take a sample; `place` names it in errors.
  template <class Place>
  void take_in(const Sample& sample, Place place) {
    gradients_.resize(std::max<std::size_t>(gradients_.size(), 1));
    GradientFactors& gradient = gradients_[0];
    find_gradient(shape(), model_.network(), sample.features, gradient);
    check_value(gradient.value, place);
    model_.take_in(sample, place);
    matrix_.add(threads_, gradient);
  }

  NeuUcbOptions options_;
  Exploration exploration_;
  std::uint64_t seed_;
  UserCount users_;
  ThreadPool& threads_;
  NeuralModel model_;
  ConfidenceMatrix matrix_;

  // Scratch.
  std::vector<GradientFactors> gradients_;
  std::vector<double> squares_;
  std::vector<std::uint32_t> candidates_;  // places of arms
  std::vector<Score> candidate_scores_;
  std::vector<double> highest_values_;  // by place, that the score may have
};

template <Exploration kExploration>
std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<SharedNeuralBandit>(parse(options), kExploration, setup);
}

std::vector<OptionHelp> option_help() { return option_table().help(); }
OptionValues resolve(const OptionValues& options) { return option_table().values(parse(options)); }

}  // namespace

PolicyKind neuucb_one_policy() {
  return {.name = "neuucb-one",
          .help = "one neural network for all users, with upper confidence bounds",
          .paper = "Zhou, Li, Gu: Neural Contextual Bandits with UCB-based Exploration, ICML 2020",
          .options = option_help,
          .resolve = resolve,
          .build = build<Exploration::kUpperBound>};
}

PolicyKind neuralts_policy() {
  return {.name = "neuralts",
          .help = "one neural network for all users; draws from what it holds possible",
          .paper = "Zhang, Zhou, Li, Gu: Neural Thompson Sampling, ICLR 2021",
          .options = option_help,
          .resolve = resolve,
          .build = build<Exploration::kDraw>};
}

}  // namespace mcnb
