#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/serve/model/events.h"
#include "mcnb/serve/model/served_users.h"
#include "mcnb/serve/model/waiting_events.h"

namespace mcnb {

// A request for a decision, with its features as numbers of unit length.
struct RankRequest {
  std::string event_id;
  std::string user_id;
  std::vector<std::string> actions;
  std::vector<float> features;  // `dimension` for each action
  std::vector<bool> eligible;   // false where the caller excluded the action
  bool deferred = false;
  bool explain = false;
};

enum class RewardOutcome {
  kLearned,    // now
  kWaiting,    // counts when the waiting time ends, or on activation
  kDuplicate,  // the same reward id again
  kIgnored,    // another reward came first, or there were too many
  kLate,       // after the waiting time
  kUnknown,    // nobody knows the event
};
const char* name_of(RewardOutcome outcome);

// How often what has happened, since the model was made.
struct ModelCounts {
  std::uint64_t decisions = 0;
  std::uint64_t explored = 0;  // answers that differ from the policy's own choice
  std::uint64_t agreed = 0;    // apprentice: the policy would have answered the same
  std::uint64_t learned = 0;   // lessons: rewards and default rewards
  std::uint64_t defaults = 0;  // lessons because no reward came
  std::uint64_t refused = 0;   // lessons that the policy would not take
  std::uint64_t rewards = 0;   // that came in time
  std::uint64_t late = 0;
  std::uint64_t clipped = 0;      // sums above 1
  std::uint64_t expired = 0;      // waiting times that ended
  std::uint64_t unactivated = 0;  // of events that were never activated
  std::uint64_t forgotten = 0;    // users
  std::uint64_t scored = 0;       // decisions the next sum is over
  std::uint64_t cluster_sizes = 0;
};

struct UserReport {
  bool known = false;
  bool own_learner = false;
  std::uint32_t learner = 0;
  std::uint64_t decisions = 0;  // of the learner, which groups share
  std::uint64_t lessons = 0;
};

// A policy with its users, its waiting events and its counts: a state machine. `apply` is the only
// way its state changes, so the events of its log give the same state again, bit for bit, however
// they are grouped and on any number of threads.
//
// Not for use by two threads at once.
class Model {
 public:
  // Borrows the threads. Throws Error (kUsage) for options that make no model.
  Model(const ModelOptions& options, ThreadPool& threads);

  const ModelOptions& options() const { return options_; }
  const ModelCounts& counts() const { return counts_; }
  std::uint64_t version() const { return counts_.learned; }
  std::int64_t last_time() const { return last_time_; }
  std::uint64_t last_place() const { return last_place_; }
  const ServedUsers& users() const { return users_; }
  std::size_t waiting_count() const { return waiting_.size(); }
  std::size_t memory_bytes() const;

  std::uint64_t event_key(std::string_view event_id) const;
  std::uint64_t user_key(std::string_view user_id) const;

  // Where the decision of an event stands in the log; nothing for an unknown one.
  std::optional<std::uint64_t> find_decision(std::string_view event_id);
  bool is_waiting(std::string_view event_id) {
    return waiting_.find(event_key(event_id)) != nullptr;
  }
  const WaitingEvent* find_waiting(std::string_view event_id) {
    return waiting_.find(event_key(event_id));
  }
  // Whose event it is, as long as it is known; else 0.
  std::uint64_t user_of(std::string_view event_id);
  bool needs_arrival(std::string_view user_id) const;
  UserReport user_report(std::string_view user_id) const;

  // The decisions of requests that meet the present state, to be applied afterwards. Requires users
  // who have arrived and features that fit. Throws Error (kInput) where the policy's numbers have
  // left the finite range.
  std::vector<Decision> decide(std::span<const RankRequest* const> requests, std::int64_t time);

  // What `apply` would do with a reward.
  RewardOutcome judge(const Reward& reward);
  // How many events end at this time, at most `limit`.
  std::uint32_t due(std::int64_t time, std::size_t limit);

  // `place` is that of the event in the log; places go up. Throws Error (kCorrupt) for an event
  // that no sound log has here.
  void apply(const Event& event, std::uint64_t place);
  RewardOutcome apply_reward(const Reward& reward, std::uint64_t place);

  // Learns what has been put off.
  void learn_now();
  // That learning took since the last call.
  double take_learning_seconds();

  // Bit-exact; `load` throws Error (kCorrupt), or (kUsage) for a model of other options, and leaves
  // the model in an undefined state when it throws.
  void save(StateWriter& writer);
  void load(StateReader& reader);

 private:
  struct Lesson {
    RoundId round{};
    std::uint32_t learner = 0;
    std::uint32_t arm = 0;
    std::vector<float> features;
    float reward = 0.0F;
  };
  struct LearnerCounts {
    std::uint64_t decisions = 0;
    std::uint64_t lessons = 0;
  };

  void require(bool sound, const char* claim) const;
  void on(const Arrival& event);
  void on(const Decision& event);
  void on(const Activation& event);
  void on(const Expiry& event);
  void on(const Forgetting& event);
  void on(const SettingsChange& event);
  void on(const Reward& event) { take_reward(event); }
  RewardOutcome take_reward(const Reward& reward);
  void end(WaitingEvent event);
  void add_lesson(WaitingEvent event, float reward);
  float aggregate(const WaitingEvent& event);
  std::int64_t waiting_milliseconds() const;
  Decision decide_one(const RankRequest& request, const std::vector<Score>& scores,
                      std::int64_t time) const;
  Round round_of(const RankRequest& request) const;

  ModelOptions options_;
  ServedUsers users_;
  WaitingEvents waiting_;
  std::unique_ptr<Policy> policy_;
  ModelCounts counts_;
  std::vector<LearnerCounts> learners_;
  std::vector<Lesson> lessons_;  // counted, but not yet learned
  std::int64_t last_time_ = 0;
  std::uint64_t last_place_ = 0;
  double learning_seconds_ = 0.0;
};

inline const StateHeader kModelState{.kind = "served-model", .version = 2};

}  // namespace mcnb
