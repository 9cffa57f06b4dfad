#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/candidate.h"
#include "mcnb/bandit/mcnb/cluster_finder.h"
#include "mcnb/bandit/mcnb/last_decision.h"
#include "mcnb/bandit/mcnb/learner_walk.h"
#include "mcnb/bandit/mcnb/mcnb_options.h"
#include "mcnb/bandit/mcnb/member_draws.h"
#include "mcnb/bandit/mcnb/meta_learner.h"
#include "mcnb/bandit/mcnb/replay_training.h"
#include "mcnb/bandit/mcnb/unit_arms.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/numeric/network_pool.h"

namespace mcnb {

// Meta Clustering of Neural Bandits: one network per user; for every arm the users who see it
// alike; a meta-learner that adapts to them; the highest upper confidence bound. `choose` and
// `learn` are Algorithm 1 of the paper.
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
  // Arms that the meta-learner selects are compared with each other.
  std::size_t arms_apart() const override { return options_.keep_arms == 0 ? 1 : 0; }
  std::vector<Score> scores_of_part(const Round& round, std::size_t begin,
                                    std::size_t end) override;
  std::optional<std::vector<UserId>> cluster(const Arm& arm) override;
  void learn(RoundId round, const Arm& arm, float reward) override;
  std::vector<Refusal> learn_all(std::span<const RewardedArm> rewarded) override;
  bool forget(UserId user) override;
  StepCounts steps() const override { return steps_; }
  std::optional<PartSeconds> part_seconds() const override { return seconds_; }
  std::size_t memory_bytes() const override;
  void save(StateWriter& writer) const override;
  void load(StateReader& reader) override;

  // A stored event, and how much less the adapted meta-learner would expect of an arm without it.
  struct Influence {
    EventId event{};
    double moved = 0.0;
  };
  // The events that the adaptation to an arm draws now, the strongest first: all that are drawn, or
  // `most` whose steps are the longest. For people: takes as long as `most` adaptations.
  std::vector<Influence> influences(RoundId round, const Arm& arm, std::size_t most);

  const McnbOptions& options() const { return options_; }
  const NetworkPool& user_learners() const { return learners_; }
  // For callers that set networks which were trained elsewhere.
  NetworkPool& user_learners() {
    last_decision_.clear();
    return learners_;
  }
  const MetaLearner& meta_learner() const { return meta_; }
  MetaLearner& meta_learner() { return meta_; }
  const Histories& histories() const { return histories_; }
  // The learner that stands for a user: its own, or the one that its pre-cluster shares.
  UserId learner_of(UserId user) const { return learner_of_[index(user)]; }
  // mu: how often the user's learner has been trained on feedback.
  std::uint64_t trained_count(UserId user) const { return trained_[index(learner_of(user))]; }

  // All that a policy knows beside its networks and histories.
  struct Counters {
    std::vector<std::uint32_t> trained;       // by learner
    std::vector<std::uint8_t> has_own_datum;  // by learner
    std::vector<UserId> learner_of;           // by user
    std::uint64_t feedbacks = 0;
    StepCounts steps;
  };
  Counters counters() const;
  // Replaces everything. Requires parts that fit together, and no scan=sampled.
  void set_contents(NetworkPool learners, std::span<const float> theta, Histories histories,
                    Counters counters);

 private:
  // The arms of a round that are worth a closer look.
  struct Preselection {
    std::vector<Candidate> kept;   // ascending by arm index
    std::vector<float> estimates;  // f(x; Theta) of every arm; empty if all are kept
  };
  // Memory that one thread needs to adapt the meta-learner.
  struct AdaptationMemory {
    MemberDraws draws;
    MetaScratch meta;
  };

  const NetworkShape& shape() const { return learners_.shape(); }
  bool is_online() const { return options_.training == TrainingMode::kOnline; }
  bool samples_learners() const { return options_.scan == Scan::kSampled; }
  Features seen(const Features& x);
  Candidate candidate(RoundId round, const Arm& arm);
  Preselection preselect(const Round& round);

  void learn_reward(const Candidate& served, float reward);
  void learn_batch(std::span<const Candidate> arms, std::span<const std::size_t> indices,
                   std::span<const RewardedArm> rewarded, std::vector<Refusal>& refused);

  std::vector<FoundCluster> users_like(std::span<const Candidate> arms);
  void check_found(const Candidate& arm, bool is_found) const;
  std::vector<AdaptedMeta> adapt_meta_learner(std::span<const Candidate> arms,
                                              std::span<const FoundCluster> clusters);
  std::vector<Score> upper_bounds(std::span<const Candidate> arms,
                                  std::span<const FoundCluster> clusters,
                                  std::span<const AdaptedMeta> metas) const;

  FoundCluster cluster_of_feedback(const Candidate& served);
  bool learns_alone(UserId learner) const;
  void check_step(UserId served, const Sample& sample) const;
  void move_meta_learner(const Candidate& served, const FoundCluster& cluster);
  void step_learners(std::span<const UserId> learners, UserId served, const Sample& sample);
  void count_training(std::span<const UserId> learners);
  void remember(std::span<const UserId> learners, UserId served, const Sample& sample);
  void train_on_history(UserId learner);
  void grow_memories(std::size_t count);

  McnbOptions options_;
  std::uint64_t seed_;
  ThreadPool& threads_;
  NetworkPool learners_;                     // theta^u
  MetaLearner meta_;                         // Theta
  Histories histories_;                      // T^u
  std::vector<std::uint32_t> trained_;       // mu^u, by learner
  std::vector<std::uint8_t> has_own_datum_;  // 1 after start data or feedback, by learner
  std::vector<UserId> learner_of_;           // by user; differs only with pre-clusters
  std::uint64_t feedbacks_ = 0;
  StepCounts steps_;
  PartSeconds seconds_;

  UnitArms unit_arms_;  // memory of the arms of the present call
  ClusterFinder cluster_finder_;
  LearnerWalk walk_;  // its list is empty unless scan=sampled
  LastDecision last_decision_;
  std::vector<AdaptationMemory> memories_;  // one for each share of the arms
  ReplayTraining replay_;
  DampedStepScratch step_scratch_;
};

}  // namespace mcnb
