#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/meta_learner.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/numeric/network_pool.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

enum class MetaDraw { kOne, kAll };
enum class Feedback { kCluster, kServed };

// Every choice that Meta Clustering of Neural Bandits leaves open. The standing values are those of
// the preset `algorithm`: the paper's algorithms to the letter.
struct McnbOptions {
  double gamma = 0.4;  // users agree where their estimates differ by gamma (nu - 1)/nu at most
  double nu = 5.0;
  double s = 1.0;             // S: bound of the reward functions' norm, in the user-side bonus
  double delta = 0.1;         // one minus the confidence
  double eta_1 = 0.05;        // learning rate of the user-learners
  double eta_2 = 0.05;        // of the meta-learner
  double exploration = 1.0;   // factor of the whole bonus
  bool nonnegative = false;   // an estimate counts as zero where it is less
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  Initialisation initialisation = Initialisation::kPaper;
  bool biases = false;

  std::uint64_t meta_samples = 0;  // members that take part in an adaptation; 0: all
  std::uint64_t meta_steps = 1;
  MetaDraw meta_draw = MetaDraw::kOne;
  Feedback feedback = Feedback::kCluster;
  TrainingMode training = TrainingMode::kOnline;

  // Of training = replay.
  std::uint64_t train_every = 10;          // rounds, at first
  std::uint64_t train_often_until = 1000;  // rounds
  std::uint64_t train_every_later = 100;
  std::uint64_t user_steps = 500;  // at most, in one training
  std::uint64_t theta_steps = 1000;
  Optimiser optimiser = Optimiser::kAdam;
  double learning_rate = 1e-3;
  double stop_loss = 1e-3;

  std::uint64_t history_limit = 0;  // events a user remembers; 0: all
  std::uint64_t keep_arms = 0;      // arms that f(x; Theta) selects for a closer look; 0: all
  std::uint64_t pre_clusters = 0;   // groups of users, by their features, that act as one; 0: none
};

// Where the time of all rounds so far went.
struct McnbSeconds {
  double clustering = 0.0;  // estimates of all users for all arms, and who agrees
  double adaptation = 0.0;  // of the meta-learner to every arm's cluster, and to the feedback
  double training = 0.0;    // of user-learners on feedback, and histories
};

// By name: "algorithm", "experiments", "default", "default-classification". Throws Error (kUsage)
// listing them for another one.
McnbOptions mcnb_preset(const std::string& name);

// The option "preset" first, then the others over it. Throws Error (kUsage).
McnbOptions parse_mcnb_options(const OptionValues& values);
// Throws Error (kUsage) naming the option that is out of its range, and the value.
void check_mcnb_options(const McnbOptions& options);
// All options with the values they then have; the preset has done its work.
OptionValues resolve_mcnb_options(const OptionValues& values);
std::vector<OptionHelp> mcnb_option_help();

// Meta Clustering of Neural Bandits: one network per user; for every arm the users who see it
// alike; a meta-learner that adapts to them; the highest upper confidence bound.
class Mcnb : public Policy {
 public:
  // Throws Error (kUsage) for options out of range, or pre_clusters without user features.
  Mcnb(const McnbOptions& options, const PolicySetup& setup);

  std::size_t user_count() const override { return learner_of_.size(); }
  void add_users(std::size_t count) override;
  void start(UserId user, const Sample& sample) override;
  ArmIndex choose(const Round& round) override;
  std::vector<Score> scores(const Round& round) override;
  std::vector<std::vector<Score>> scores_of(std::span<const Round> rounds) override;
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override;
  void learn(RoundId round, const Arm& arm, float reward) override;
  std::size_t learn_all(std::span<const RewardedArm> rewarded) override;
  bool forget(UserId user) override;
  StepCounts steps() const override { return steps_; }
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

  const McnbOptions& options() const { return options_; }
  const McnbSeconds& seconds() const { return seconds_; }
  const NetworkPool& user_learners() const { return learners_; }
  // To give users networks that were trained elsewhere.
  NetworkPool& user_learners() {
    decision_.fresh = false;
    return learners_;
  }
  const MetaLearner& meta_learner() const { return meta_; }
  MetaLearner& meta_learner() {
    decision_.fresh = false;
    return meta_;
  }
  const Histories& histories() const { return histories_; }
  // Whose learner speaks for the user: its own, or that of its pre-cluster.
  UserId learner_of(UserId user) const { return learner_of_[index(user)]; }
  // mu: how often the user's learner has been trained on feedback.
  std::uint64_t trained_count(UserId user) const {
    return trained_[index(learner_of_[index(user)])];
  }

 private:
  using Cluster = std::vector<UserId>;  // learners, ascending

  // Memory of one thread's share of the arms.
  struct Scratch {
    std::vector<std::vector<Draw>> draws;  // by step of the adaptation
    std::vector<float> event_weights;      // by event, zero between uses
    std::vector<UserId> with_history;      // members
    std::vector<std::size_t> swaps;        // that brought some of them to the front
    std::vector<std::uint32_t> numbers;    // of the members that draw
    std::vector<std::uint32_t> words;      // the random bits each of them draws with
    std::uint64_t adaptation_steps = 0;
    MetaScratch meta;
  };
  struct Scored {
    std::vector<Score> scores;  // by arm
    std::uint64_t steps = 0;    // of all adaptations
  };
  // An arm to score, and where its score and its cluster go.
  struct Place {
    RoundId round{};
    const Arm* arm = nullptr;
    Score* score = nullptr;
    Cluster* cluster = nullptr;
  };
  // The last decision, as long as nothing has been learned since.
  struct Decision {
    bool fresh = false;
    RoundId id{};
    std::vector<Arm> arms;  // their features are copies, in `values`
    std::vector<float> values;
    std::vector<Cluster> clusters;  // by arm
  };

  const NetworkShape& shape() const { return learners_.shape(); }
  std::vector<std::size_t> preselect(const Round& round, std::vector<Score>& scores);
  Scored score_arms(const Round& round, std::vector<Cluster>& clusters);
  std::uint64_t score_places(std::span<const Place> places);
  Score score(const Arm& arm, RoundId round, const Cluster& cluster, Scratch& scratch) const;
  std::size_t most_arms_at_once() const;
  double user_bonus(UserId learner) const;
  bool learns_alone(UserId learner) const;
  void find_cluster(UserId learner, std::span<const float> estimates, Cluster& cluster) const;
  Cluster users_like(const Arm& arm);
  void draw_samples(const Cluster& cluster, RoundId round, ArmIndex arm, Scratch& scratch) const;
  void draw_step(std::span<UserId> members, RoundId round, std::uint32_t place, Scratch& scratch,
                 std::vector<Draw>& draws) const;
  void remember(const Round& round);
  const Cluster* remembered(RoundId round, const Arm& arm) const;
  void learn_from(RoundId round, const Arm& arm, float reward, Cluster cluster);
  void check_step(std::span<const UserId> users, UserId served, const Sample& sample) const;
  void train_on_history(UserId learner);

  McnbOptions options_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  NetworkPool learners_;
  MetaLearner meta_;
  Histories histories_;
  std::vector<std::uint32_t> trained_;       // mu, by learner
  std::vector<std::uint8_t> has_own_datum_;  // 1 after start data or feedback, by learner
  std::vector<UserId> learner_of_;           // by user; differs only with pre-clusters
  std::uint64_t feedbacks_ = 0;
  StepCounts steps_;
  McnbSeconds seconds_;

  Predictions predictions_;
  std::vector<Scratch> scratch_;
  Decision decision_;
  TrainingScratch training_scratch_[2];  // of the user-learner, of Theta
};

}  // namespace mcnb
