#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/bandit/opinions.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/base/state_file.h"
#include "mcnb/serve/model/challengers.h"
#include "mcnb/serve/model/events.h"
#include "mcnb/serve/model/outcomes.h"
#include "mcnb/serve/model/served_users.h"
#include "mcnb/serve/model/waiting_events.h"

namespace mcnb {

// A request for a decision, with its features as numbers of unit length.
struct RankRequest {
  std::string event_id;
  std::string user_id;
  std::vector<std::string> actions;
  std::vector<float> features;  // `dimension` for each action
  std::vector<bool> eligible;   // by action; false if the caller excluded it
  bool deferred = false;
  bool explain = false;
  SlotOfEvent slot = {};
  std::optional<CallerFeatures> kept = {};  // are to be kept
};

enum class RewardOutcome {
  kLearned,    // now
  kWaiting,    // counts when the waiting time ends, or on activation
  kDuplicate,  // the same reward id again
  kIgnored,    // another reward came first, or there were too many
  kLate,       // after the waiting time
  kUnknown,    // there is no such event
};
const char* name_of(RewardOutcome outcome);

// What has happened to a model since it was made. Stored raw in saved states.
struct ModelCounts {
  std::uint64_t decisions = 0;
  std::uint64_t explored = 0;       // answers that differ from the policy's own choice
  std::uint64_t agreed = 0;         // apprentice: answers that are the policy's own choice
  std::uint64_t learned = 0;        // lessons: rewards and default rewards
  std::uint64_t defaults = 0;       // lessons with the default reward, because no reward came
  std::uint64_t refused = 0;        // lessons that the policy refused
  std::uint64_t rewards = 0;        // rewards that came in time
  std::uint64_t late = 0;           // rewards that came after the waiting time
  std::uint64_t clipped = 0;        // sums of rewards above 1
  std::uint64_t expired = 0;        // waiting times that ended
  std::uint64_t unactivated = 0;    // expired events that were never activated
  std::uint64_t forgotten = 0;      // users
  std::uint64_t scored = 0;         // decisions that the policy scored
  std::uint64_t cluster_sizes = 0;  // sum over them

  using Stored =
      StoredInOrder<&ModelCounts::decisions, &ModelCounts::explored, &ModelCounts::agreed,
                    &ModelCounts::learned, &ModelCounts::defaults, &ModelCounts::refused,
                    &ModelCounts::rewards, &ModelCounts::late, &ModelCounts::clipped,
                    &ModelCounts::expired, &ModelCounts::unactivated, &ModelCounts::forgotten,
                    &ModelCounts::scored, &ModelCounts::cluster_sizes>;
};
static_assert(sizeof(ModelCounts) == 14 * 8, "the counts are stored as fourteen numbers");

// An event that waits no longer, for those who watch.
struct EndedReward {
  std::uint64_t event = 0;      // hash of its id
  std::optional<float> reward;  // nullopt if the event was never activated
  bool rewarded = false;        // false: it is the default reward
};

struct UserReport {
  bool known = false;
  bool own_learner = false;
  std::uint32_t learner = 0;
  std::uint64_t decisions = 0;  // of the learner, which the users of a group share
  std::uint64_t lessons = 0;
};

// A policy with its users, its waiting events and its counts: a state machine. Its state changes
// only by `apply`, so replaying the events of its log gives the same state, bit for bit, in batches
// of any size and on any number of threads.
//
// Not for use by two threads at once.
class Model {
 public:
  // Borrows the threads. Throws Error (kUsage) for options that make no model.
  Model(const ModelOptions& options, ThreadPool& threads);

  const ModelOptions& options() const { return options_; }
  // The policy with which the model was made; challengers may have been promoted since.
  const PolicySpec& first_policy() const { return first_policy_; }
  const ModelCounts& counts() const { return counts_; }
  std::uint64_t version() const { return counts_.learned; }
  std::int64_t last_time() const { return last_time_; }
  std::uint64_t last_position() const { return last_position_; }
  const ServedUsers& users() const { return users_; }
  std::size_t waiting_count() const { return waiting_.size(); }
  std::size_t memory_bytes() const;

  std::uint64_t event_key(std::string_view event_id) const;
  std::uint64_t user_key(std::string_view user_id) const;

  // The log position of an event's decision; nullopt for an unknown event.
  std::optional<std::uint64_t> find_decision(std::string_view event_id);
  bool is_waiting(std::string_view event_id) {
    return waiting_.find(event_key(event_id)) != nullptr;
  }
  bool is_waiting(std::uint64_t event_key) { return waiting_.find(event_key) != nullptr; }
  const WaitingEvent* find_waiting(std::string_view event_id) {
    return waiting_.find(event_key(event_id));
  }
  // True for an event that has ended because a reward was learned, which only active events do.
  bool was_rewarded(std::string_view event_id) const;
  // The key of the user whose event it is; 0 for an unknown event.
  std::uint64_t user_of(std::string_view event_id);
  bool needs_arrival(std::string_view user_id) const;
  UserReport user_report(std::string_view user_id) const;

  // Decides requests in the present state; the caller applies the decisions afterwards. Requires
  // users who have arrived and features of the model's dimension. Throws Error (kInput) if the
  // policy's numbers are no longer finite.
  std::vector<Decision> decide(std::span<const RankRequest* const> requests, std::int64_t time);

  // How it would decide a request, without any change. A user who has not arrived gets a learner
  // that has learned nothing; nullopt if there is none.
  std::optional<Decision> try_decision(const RankRequest& request, std::int64_t time);
  std::size_t learner_count() const { return learners_.size(); }
  std::size_t taught_count() const;
  std::uint64_t lessons_of(std::uint32_t learner) const { return learners_[learner].lessons; }
  // What stands behind the answer of a logged decision now. Members of its cluster are learners;
  // `user_of` says whose. nullopt if the user of the decision has no learner any more.
  std::optional<CloserLook> closer_look(const Decision& decision, std::size_t most);
  std::uint64_t user_of(std::uint32_t learner) const { return users_.user_of(learner); }
  StepCounts steps() const { return policy_->steps(); }
  std::optional<double> shared_movement() const { return mcnb::shared_movement(*policy_); }
  // Appends what learners say about arms (find_opinions).
  void opinions(std::span<const UserId> learners, std::span<const Features> arms,
                std::vector<float>& out);

  // A decision whose arms are scored in parts, so that others can be decided in between. All parts
  // see one state: between `begin_parts` and `finish_parts` only decisions may be applied, of users
  // who have arrived. Gives the decision that `decide` would give.
  struct PartedDecision {
    Round round;  // borrows the features of the request
    std::vector<Score> scores;
    std::vector<std::vector<Score>> challengers;  // by challenger; fewer: it cannot decide
  };
  // The number of arms of a part, or a multiple of it, 0 if rounds cannot be cut.
  std::size_t arms_apart() const;
  // Requires what `decide` requires, arms_apart() > 0, and a model that does not only log.
  PartedDecision begin_parts(const RankRequest& request);
  // Scores so many further arms, a multiple of arms_apart(). Returns true when all have scores.
  bool score_part(PartedDecision& parted, std::size_t arms);
  Decision finish_parts(const PartedDecision& parted, const RankRequest& request,
                        std::int64_t time);

  // What a model of these options would take, with the learners that it begins with. Throws Error
  // (kUsage) for options that make no model.
  static PolicySize size_of(const ModelOptions& options, ThreadPool& threads);
  // Estimated seconds for the scores of one action by all policies, challengers included.
  double seconds_of_arm() const;
  // Bytes that a decision for this user may add, its lesson included.
  double bytes_of_decision(std::string_view user_id) const;
  // Learners that have learned, at most.
  double taught_learners() const;

  // Says what `apply` would do with a reward.
  RewardOutcome judge(const Reward& reward);
  // The number of waiting events that end at this time, at most `limit`.
  std::uint32_t due(std::int64_t time, std::size_t limit);
  // Outcomes count as time goes by, with any event. True if some are due for so long that an event
  // is needed for them, such as an Expiry of no events.
  bool outcomes_are_due(std::int64_t time) const;

  // Changes the state by the event at a log position; positions go up. Throws Error (kCorrupt) for
  // an event that cannot follow those before it.
  void apply(const Event& event, std::uint64_t position);

  // What the decisions earn, and what others would have earned.
  EstimateReport estimates() const;
  std::size_t challenger_count() const { return challengers_.size(); }
  bool has_challenger(std::string_view name) const;
  // Makes the policy of a challenger, on any thread. Throws Error (kUsage) for options that make
  // none.
  static std::unique_ptr<Policy> make_challenger(const ModelOptions& model,
                                                 const ChallengerOptions& options,
                                                 ThreadPool& threads);
  static PolicySize size_of_challenger(const ModelOptions& model, const ChallengerOptions& options,
                                       ThreadPool& threads);
  // Lends the next ChallengerBegin a policy that was just made for it, so that it need not make
  // one.
  void lend_policy(std::unique_ptr<Policy> policy) { lent_ = std::move(policy); }

  // Fits beside the requests: when one is due, the owner applies a FitBegin, runs the fit in
  // progress, and applies its FitResult. A Forgetting can end a fit without a result. They name the
  // challenger of whose policy they are; an empty name is the model's own.
  std::optional<std::string> due_fit() const;
  bool fit_is_due() const { return policy_->fit_is_due(); }
  struct Fit {
    std::string challenger;
    std::shared_ptr<BackgroundFit> fit;
  };
  // The same objects until the fits end, but others after `load`.
  std::vector<Fit> fits_in_progress() const;
  // The fit of the model's own policy; nullptr if there is none.
  std::shared_ptr<BackgroundFit> fit_in_progress() const;

  // What this model has learned, as a Start of another one with its options that are no settings:
  // its users and its policy, without challengers, waiting events and estimates.
  std::string start_state();
  // Learns a reward of a log, without an event: for models of which only the state is kept, as the
  // Start of another one. The features are those of the arm.
  void learn_logged(std::string_view user_id, RoundId round, std::uint32_t arm,
                    std::span<const float> features, float reward);
  // What a policy has learned elsewhere, as a Start of this model, which has the policy's options,
  // inputs and seed. `users`: their names, by number; none if the policy has one user. Throws Error
  // (kUsage) if they do not fit the model.
  std::string start_state_of(const Policy& policy, const std::vector<std::string>& users) const;

  // Gives a new user a learner that has learned one sample, without an event: for benchmarks that
  // make a large state in seconds. No log has such a state, only a snapshot of it. Requires a model
  // without groups.
  void prepare(std::string_view user_id, const Sample& sample);

  // Learns the lessons that `apply` has put off.
  void learn_now();
  // Returns the seconds that learning took since the last call, results of fits included.
  double take_learning_seconds();

  // Why the policy most recently refused a reward; empty if it never did since the start of the
  // process. Not part of the state.
  const std::string& last_refusal() const { return last_refusal_; }

  // From now on `apply` adds the events that end. Not part of the state. Borrows the list.
  void report_ends_to(std::vector<EndedReward>* ended) { ended_ = ended; }

  // Bit-exact. `load` throws Error (kCorrupt) for damage and for a state of other options; the
  // model is then undefined.
  void save(StateWriter& writer);
  void load(StateReader& reader);

 private:
  struct Lesson {
    RoundId round{};
    std::uint32_t learner = 0;
    std::uint32_t arm = 0;
    std::vector<float> features;
    float reward = 0.0F;
    float weight = 1.0F;
  };
  // Stored raw in saved states.
  struct LearnerCounts {
    std::uint64_t decisions = 0;
    std::uint64_t lessons = 0;

    using Stored = StoredInOrder<&LearnerCounts::decisions, &LearnerCounts::lessons>;
  };
  static_assert(sizeof(LearnerCounts) == 2 * 8);

  void require(bool sound, const char* claim) const;
  void on(const Arrival& event);
  void on(const Decision& event);
  void on(const Activation& event);
  void on(const Expiry& event);
  void on(const Forgetting& event);
  void on(const SettingsChange& event);
  void on(const FitBegin& event);
  void on(const FitResult& event);
  void on(const Reward& event);
  void on(const ChallengerBegin& event);
  void on(const ChallengerEnd& event);
  void on(const Promotion& event);
  void on(const Start& event);
  void end(WaitingEvent event);
  float lesson_weight(const Decision& event) const;
  void note_outcome(const Decision& event, const WaitingEvent& waiting);
  void count_outcomes();
  void count(const Outcome& outcome);
  Challenger* find_challenger(std::string_view name);
  Policy* policy_of(const std::string& challenger);
  void begin_estimates(std::uint64_t position);
  void teach(Challenger& challenger, std::vector<RewardedArm> lessons);
  std::vector<std::vector<std::uint32_t>> choices_of_challengers(std::span<const Round> rounds);
  void score_challengers(PartedDecision& parted, std::size_t begin, std::size_t end);
  void save_challengers(StateWriter& writer) const;
  void load_challengers(StateReader& reader);
  void load_options(StateReader& reader);
  void load_policy(StateReader& reader);
  float reward_unlearned(const WaitingEvent& event) const;
  void report_end(const WaitingEvent& event, std::optional<float> reward) const;
  void add_lesson(WaitingEvent event, float reward);
  float aggregate(const WaitingEvent& event);
  std::int64_t waiting_milliseconds() const;
  Decision decide_one(const RankRequest& request, const std::vector<Score>& scores,
                      std::span<const std::uint32_t> challenged, std::int64_t time) const;
  Round round_of(const RankRequest& request) const;
  Round round_of(const RankRequest& request, std::uint32_t learner) const;

  ThreadPool& threads_;
  ModelOptions options_;
  PolicySpec first_policy_;  // with which the model was made
  ServedUsers users_;
  WaitingEvents waiting_;
  PolicySize size_;
  std::unique_ptr<Policy> policy_;
  ModelCounts counts_;
  std::vector<LearnerCounts> learners_;
  std::vector<Lesson> lessons_;  // are counted, but not yet learned
  std::int64_t last_time_ = 0;
  std::uint64_t last_position_ = 0;
  double learning_seconds_ = 0.0;
  std::string last_refusal_;
  Outcomes outcomes_;
  std::uint64_t champion_since_ = 0;  // log position since which its policy is estimated
  RunningValue champion_;
  RunningValue random_;
  RunningValue first_;
  std::vector<Challenger> challengers_;  // in the order of their beginnings
  std::unique_ptr<Policy> lent_;
  std::vector<EndedReward>* ended_ = nullptr;  // borrowed
};

inline const StateHeader kModelState{.kind = "served-model", .version = 3};

}  // namespace mcnb
