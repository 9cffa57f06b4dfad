#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_map>
#include <utility>

#include "mcnb/bandit/basic_policy.h"
#include "mcnb/bandit/input_names.h"
#include "mcnb/bandit/neural/confidence_matrix.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostArmsTogether = 32;   // whose gradients are held at once
constexpr std::size_t kWorthAThread = 1 << 16;  // multiplications

struct NeuUcbIndOptions {
  ConfidenceOptions confidence{.matrix = MatrixForm::kDiagonal};
  NeuralOptions neural;
};

OptionTable<NeuUcbIndOptions> option_table() {
  OptionTable<NeuUcbIndOptions> table;
  table.part(&NeuUcbIndOptions::confidence, confidence_option_table())
      .part(&NeuUcbIndOptions::neural, neural_option_table());
  return table;
}

// NeuUCB-IND: NeuUCB for every user alone. A user's network and Z are made with its first sample;
// until then the user has the network that all start from, and Z = lambda I. Scores are those of
// NeuUCB-ONE with the user's own network and Z.
//
// A training has as many steps as that of a policy with one network. Users with samples since their
// last training share the steps equally; the remainder goes, one step each, to those who have
// waited longest. If there are more such users than steps, the others wait for the next training. A
// network that would leave the finite numbers stays as it was; the others are trained.
class NeuUcbInd final : public BasicPolicy {
 public:
  NeuUcbInd(const NeuUcbIndOptions& options, const PolicySetup& setup)
      : BasicPolicy(setup),
        options_(options),
        shape_(options.neural.network.shape(setup.inputs)),
        seed_(setup.seed),
        threads_(*setup.threads),
        fresh_{.network = random_network(shape_, options.neural.network.initialisation, setup.seed),
               .matrix = ConfidenceMatrix(options.confidence, shape_)},
        histories_(setup.seed, static_cast<std::size_t>(options.neural.history_limit)) {}

  void start(UserId user, const Sample& sample) override {
    check(user, sample);
    take_in(user, sample, [&] { return start_name(user); });
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    check(round);
    const std::vector<std::size_t> groups = group_by_user(round);
    std::vector<Score> scores(round.arms.size());
    gradients_.resize(std::max(gradients_.size(), scores.size()));
    squares_.resize(scores.size());
    const std::size_t cost = round.arms[0].features.values.size() * shape_.width;
    threads_.parallel_for(groups.size() - 1, kWorthAThread / cost + 1,
                          [&](std::size_t first, std::size_t end) {
                            for (std::size_t i = first; i < end; ++i) {
                              score_arms(round, groups[i], groups[i + 1], scores);
                            }
                          });
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    check(round, arm, reward);
    take_in(arm.user, {arm.features, reward}, [&] { return feedback_name(round, arm); });
    ++rewards_;
    if (options_.neural.training_is_due(rewards_)) {
      train();
    }
  }

  StepCounts steps() const override { return {.training = steps_}; }

  std::size_t memory_bytes() const override {
    std::size_t bytes = sizeof *this + histories_.memory_bytes() + bytes_of(fresh_) +
                        slots_.size() * (2 * sizeof(UserId) + 2 * sizeof(void*)) +
                        slots_.bucket_count() * sizeof(void*) +
                        learners_.capacity() * sizeof(Learner) +
                        waiting_.size() * sizeof waiting_[0];
    for (const Learner& learner : learners_) {
      bytes += bytes_of(learner);
    }
    for (const TrainingScratch& scratch : training_scratch_) {
      bytes += sizeof scratch + scratch.memory_bytes();
    }
    return bytes;
  }

  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

 private:
  // The own network and Z of a user.
  struct Learner {
    UserId user{};
    bool waits = false;  // for a training
    std::vector<float> network;
    ConfidenceMatrix matrix;
  };

  static std::size_t bytes_of(const Learner& learner) {
    return learner.network.capacity() * sizeof(float) + learner.matrix.memory_bytes();
  }

  Learner& learner_of(UserId user) {
    const auto found = slots_.find(user);
    return found == slots_.end() ? fresh_ : learners_[found->second];
  }

  // The index of the user's own learner in learners_; makes the learner if there is none.
  std::uint32_t own_learner(UserId user);

  static std::vector<std::size_t> group_by_user(const Round& round);
  // Scores the arms of one user from `begin` to `end`.
  void score_arms(const Round& round, std::size_t begin, std::size_t end, std::span<Score> scores);

  // `where` names the sample in errors.
  template <class Where>
  void take_in(UserId user, const Sample& sample, Where where);

  void train();

  NeuUcbIndOptions options_;
  NetworkShape shape_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  Learner fresh_;                                    // stands for all users without samples
  std::unordered_map<UserId, std::uint32_t> slots_;  // by user: the index in learners_
  std::vector<Learner> learners_;                    // in the order of their users' first samples
  Histories histories_;                              // by learner; empty if training = online
  std::deque<std::uint32_t> waiting_;  // learners to be trained, longest waiting first
  std::uint64_t rewards_ = 0;
  std::uint64_t steps_ = 0;

  std::vector<GradientFactors> gradients_;  // scratch, by arm
  std::vector<double> squares_;
  std::vector<TrainingScratch> training_scratch_;  // by part of the users in training
  std::vector<float> stepped_;                     // a network after a step
  DampedStepScratch step_scratch_;
};

std::uint32_t NeuUcbInd::own_learner(UserId user) {
  const auto [found, is_new] =
      slots_.try_emplace(user, static_cast<std::uint32_t>(learners_.size()));
  if (is_new) {
    learners_.push_back(fresh_);
    learners_.back().user = user;
    histories_.add_users(1);
  }
  return found->second;
}

// Returns the index at which each group of arms begins, and the end. Neighbouring arms of one user
// are a group, because they use one Z.
std::vector<std::size_t> NeuUcbInd::group_by_user(const Round& round) {
  std::vector<std::size_t> starts = {0};
  for (std::size_t i = 1; i < round.arms.size(); ++i) {
    if (round.arms[i].user != round.arms[i - 1].user || i - starts.back() == kMostArmsTogether) {
      starts.push_back(i);
    }
  }
  starts.push_back(round.arms.size());
  return starts;
}

void NeuUcbInd::score_arms(const Round& round, std::size_t begin, std::size_t end,
                           std::span<Score> scores) {
  Learner& learner = learner_of(round.arms[begin].user);
  for (std::size_t i = begin; i < end; ++i) {
    find_gradient(shape_, learner.network, round.arms[i].features, gradients_[i]);
    check_value(gradients_[i].value, [&] { return arm_name(round.id, i); });
  }
  learner.matrix.find_squares(threads_, std::span(gradients_).subspan(begin, end - begin),
                              std::span(squares_).subspan(begin, end - begin));
  for (std::size_t i = begin; i < end; ++i) {
    scores[i] = Score(options_.confidence.counted(gradients_[i].value),
                      {{"uncertainty", options_.confidence.alpha * std::sqrt(squares_[i])}});
  }
}

template <class Where>
void NeuUcbInd::take_in(UserId user, const Sample& sample, Where where) {
  gradients_.resize(std::max<std::size_t>(gradients_.size(), 1));
  GradientFactors& gradient = gradients_[0];
  find_gradient(shape_, learner_of(user).network, sample.features, gradient);
  check_value(gradient.value, where);
  const bool online = options_.neural.training == TrainingMode::kOnline;
  if (online) {
    stepped_ = learner_of(user).network;
    if (!take_damped_step(shape_, stepped_, sample, static_cast<float>(options_.neural.online_rate),
                          step_scratch_)) {
      refuse_step(where());
    }
  }
  const std::uint32_t own = own_learner(user);
  Learner& learner = learners_[own];
  if (online) {
    learner.network.swap(stepped_);
    ++steps_;
  } else {
    const UserId holder{own};
    histories_.add({&holder, 1}, sample);
    if (!learner.waits) {
      learner.waits = true;
      waiting_.push_back(own);
    }
  }
  learner.matrix.add(threads_, gradient);
  learner.matrix.settle(threads_);  // so that threads may score a user's arms
}

void NeuUcbInd::train() {
  const std::uint64_t all = options_.neural.train_steps;
  const auto trained = static_cast<std::size_t>(std::min<std::uint64_t>(waiting_.size(), all));
  if (trained == 0) {
    return;
  }
  const std::uint64_t share = all / trained;
  const std::uint64_t left_over = all % trained;
  std::vector<std::uint64_t> steps(trained);
  std::vector<char> diverged(trained);
  const auto train_one = [&](std::size_t i, TrainingScratch& scratch) {
    Learner& learner = learners_[waiting_[i]];
    const std::vector<float> before = learner.network;
    Rng rng(seed_, Stream::kTrainingOrder, rewards_,
            static_cast<std::uint32_t>(index(learner.user)));
    steps[i] = train_network(shape_, learner.network, histories_.samples_of(UserId{waiting_[i]}),
                             options_.neural.replay.training(share + (i < left_over ? 1 : 0)), rng,
                             scratch)
                   .steps;
    if (!all_finite(learner.network)) {
      learner.network = before;
      steps[i] = 0;
      diverged[i] = 1;
    }
  };
  const std::size_t parts = std::min(trained, 2 * threads_.thread_count());
  training_scratch_.resize(std::max(training_scratch_.size(), parts));
  threads_.parallel_for(parts, 1, [&](std::size_t part, std::size_t) {
    for (std::size_t i = part; i < trained; i += parts) {
      train_one(i, training_scratch_[part]);
    }
  });
  std::optional<UserId> first_diverged;
  for (std::size_t i = 0; i < trained; ++i) {
    Learner& learner = learners_[waiting_.front()];
    if (diverged[i] != 0 && !first_diverged) {
      first_diverged = learner.user;
    }
    steps_ += steps[i];
    learner.waits = false;
    waiting_.pop_front();
  }
  if (first_diverged) {
    refuse_step(
        fmt::format("the training of user {} after {} rewards", index(*first_diverged), rewards_));
  }
}

void NeuUcbInd::save(StateWriter& writer) const {
  save_users(writer);
  writer.write(rewards_);
  writer.write(steps_);
  writer.write(static_cast<std::uint64_t>(learners_.size()));
  for (const Learner& learner : learners_) {
    writer.write(learner.user);
    writer.write_all(learner.network);
    learner.matrix.save(writer);
  }
  histories_.save(writer);
  writer.write_all(std::vector<std::uint32_t>(waiting_.begin(), waiting_.end()));
}

void NeuUcbInd::load(StateReader& reader) {
  load_users(reader);
  rewards_ = reader.read<std::uint64_t>();
  steps_ = reader.read<std::uint64_t>();
  slots_.clear();
  learners_.clear();
  waiting_.clear();
  const auto count = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto user = reader.read<UserId>();
    if (index(user) >= user_count() ||
        !slots_.emplace(user, static_cast<std::uint32_t>(i)).second) {
      reader.fail("a network belongs to a user that does not exist");
    }
    learners_.push_back(fresh_);
    Learner& learner = learners_.back();
    learner.user = user;
    learner.network = reader.read_all<float>(shape_.parameter_count());
    if (learner.network.size() != shape_.parameter_count()) {
      reader.fail("a network has another size");
    }
    if (!all_finite(learner.network)) {
      reader.fail("a network holds a number that is not finite");
    }
    learner.matrix.load(reader);
    learner.matrix.settle(threads_);
  }
  histories_.load(reader, shape_);
  const std::vector<std::uint32_t> waiting = reader.read_all<std::uint32_t>(learners_.size());
  if (histories_.user_count() != learners_.size()) {
    reader.fail("there is not one history for each network");
  }
  for (const std::uint32_t learner : waiting) {
    if (learner >= learners_.size() || learners_[learner].waits) {
      reader.fail("a network waits for a training that it cannot have");
    }
    learners_[learner].waits = true;
  }
  waiting_.assign(waiting.begin(), waiting.end());
}

}  // namespace

PolicyKind neuucb_ind_policy() {
  return policy_kind<NeuUcbInd>(
      {.name = "neuucb-ind",
       .help = "a neural network for each user, with upper confidence bounds",
       .paper =
           "Zhou, Li, Gu: Neural Contextual Bandits with UCB-based Exploration, ICML 2020. Here "
           "f has no factor sqrt(m), and so Z has no 1/m; trainings have no regulariser m "
           "lambda |theta - theta_0|^2 / 2, use Adam, stop early, and continue from the "
           "parameters of the last one; alpha is constant"},
      option_table(), [](const NeuUcbIndOptions& options, const PolicySetup& setup) {
        const NetworkShape shape = options.neural.network.shape(setup.inputs);
        PolicySize size =
            network_policy_size(shape, ConfidenceMatrix::kind_of(options.confidence, shape));
        size.user_bytes = size.fixed_bytes;
        return size;
      });
}

}  // namespace mcnb
