#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/serve/engine/event_search.h"
#include "mcnb/serve/engine/memory_account.h"
#include "mcnb/serve/engine/model_source.h"
#include "mcnb/serve/engine/saved_state.h"
#include "mcnb/serve/engine/service_error.h"
#include "mcnb/serve/model/model.h"
#include "mcnb/serve/series/observations.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// What people and other threads are told about a model.
struct ModelReport {
  std::uint32_t id = 0;
  std::string name;
  ModelOptions options;
  ModelCounts counts;
  std::size_t waiting = 0;
  std::size_t users = 0;
  std::size_t learners = 0;
  std::size_t memory_bytes = 0;
  std::uint64_t version = 0;
  std::uint64_t last_position = 0;      // of its latest event
  std::uint64_t snapshot_position = 0;  // of its latest snapshot; 0: none
  std::string last_refusal;             // Model::last_refusal
  // Seconds for the score of one action: as measured lately, and estimated from the options and the
  // number of learners alone. Model::arms_apart.
  double seconds_per_action = 0.0;
  double estimate_per_action = 0.0;
  std::size_t arms_apart = 0;
  StepCounts steps;  // of the policy, since the start of the process or a snapshot
  EstimateReport estimates;
};

// A snapshot that must be written after the batch it belongs to.
struct SnapshotJob {
  std::uint32_t model = 0;
  std::uint64_t position = 0;
  std::shared_ptr<SavedState> state;
  bool alone = false;  // older ones must go: they know a user who is to be forgotten
};

// A position in the log of each model, by the model's id.
using LogPositions = std::map<std::uint32_t, std::uint64_t>;

// A challenger that is to be made for a model.
struct NewChallenger {
  std::string name;
  ChallengerOptions options;
  // Filled in on the way.
  std::uint32_t model_id = 0;
  ModelOptions model;
  std::unique_ptr<Policy> made;
};

struct Recovery {
  std::uint64_t rows = 0;  // replayed
  double seconds = 0.0;    // that replaying took
  std::vector<std::string> warnings;
  struct Damaged {
    std::uint32_t model = 0;
    std::uint64_t position = 0;
  };
  std::vector<Damaged> damaged;  // snapshots that could not be read, and were not needed
};

// The rows of a model after its snapshots were made by another kind of node (computing_kind.h).
class ComputedElsewhere : public Error {
 public:
  using Error::Error;
};

// Returns an error if the request cannot be decided, otherwise nullopt.
std::optional<ServiceError> fault_of_request(const RankRequest& request, std::size_t dimension);

// All models of one storage: turns requests into events, applies them, and collects what must be
// committed before anybody is answered. Reads the storage, but never changes it. For one thread.
class ModelHost {
 public:
  // Borrows the storage and the threads. `memory_limit`: bytes that all models, their snapshots and
  // what waits may take together. `idempotency_hours`: for which the ids of events and rewards are
  // kept beyond the memory of the models; 0: not at all. `most_copied`: see SavedState.
  ModelHost(Storage& storage, ThreadPool& threads,
            double memory_limit = std::numeric_limits<double>::infinity(),
            double idempotency_hours = 24.0, std::uint64_t most_copied = kMostCopied);

  // Makes every model from its latest sound snapshot and the log after it. Throws Error (kCorrupt)
  // if neither snapshots nor the log give a model, and ComputedElsewhere (kSystem): rows that
  // another kind of node made are never replayed.
  // `from_base`: from the oldest snapshot instead, or from an empty model if the log is complete.
  Recovery recover(bool from_base = false);
  // After `recover`: applies the rows that others have added since, and adds them to `recovery`.
  // Returns false if that does not give the state of the log, because rows were erased, for
  // example; `recover` then makes the models anew. Others may go on adding rows.
  bool catch_up(Recovery& recovery);
  // Drops all models.
  void clear();
  // The models that another kind of node computed until now, or nobody knows which, and the
  // positions after which this one does.
  struct TakenOver {
    std::uint32_t model = 0;
    std::uint64_t after = 0;
  };
  std::vector<TakenOver> taken_over() const;
  // Hashes of the whole states, by the models' names.
  std::map<std::string, std::uint64_t> digests();

  // These throw RequestRefused. What they change is in the batch.
  // Making a model in three steps, of which the second can run on any thread: `plan` refuses what
  // cannot be made, by its name or by an estimate of what it takes, and reserves the name and the
  // memory; Model(options) is the second; `adopt` takes the model in, or gives up the reservation
  // if there is none.
  ModelOptions plan(const std::string& name, ModelOptions options);
  // `start`: the event that the model has applied already; nullptr: none.
  void adopt(const std::string& name, std::unique_ptr<Model> model, const Start* start = nullptr);
  // The same for a model that begins somewhere (start_model). Options that are no settings cannot
  // differ from those of a source that is a model.
  ModelOptions plan_from(const std::string& name, ModelSource& source);
  // All three.
  void create(const std::string& name, const ModelOptions& options);
  // Challengers are made in three steps, too: Model::make_challenger is the second.
  NewChallenger plan_challenger(const std::string& model, NewChallenger wanted);
  void adopt_challenger(const std::string& model, NewChallenger challenger, std::int64_t time);
  void remove_challenger(const std::string& model, const std::string& name, std::int64_t time);
  // Makes a challenger the model's policy. `keep_as`: of the policy until now, as a challenger;
  // empty: it is dropped.
  void promote(const std::string& model, const std::string& name, const std::string& keep_as,
               std::int64_t time);
  void remove(const std::string& name);
  void change(const std::string& name, const OptionValues& settings, std::int64_t time);
  ModelReport report(const std::string& name) const;
  std::vector<ModelReport> reports() const;
  UserReport user(const std::string& model, const std::string& user_id);
  // Returns what must be erased after the next of `forgetting_snapshots` was written: the user's
  // rows, and the row from which the model began, which knows its users. Refuses (503) while a
  // snapshot for other forgotten users is under way: snapshots are large.
  std::vector<Erasure> forget(const std::string& model, const std::string& user_id,
                              std::int64_t time);
  // Takes up an erasure that was committed before a restart.
  void resume(const Erasure& erasure);
  // One for each model that has forgotten somebody since the last call.
  std::vector<SnapshotJob> forgetting_snapshots();
  // Refuses (503) while one of the model is under way.
  SnapshotJob snapshot(const std::string& model);

  // A decision for each request, or the reason why there is none. A request for an event that was
  // decided before gets the decision from the log, if it asks for the same and the row is there.
  // It is never decided again while its id is known.
  struct Decided {
    std::optional<Decision> decision;
    std::optional<ServiceError> error;
  };
  std::vector<Decided> decide(const std::string& model,
                              const std::vector<const RankRequest*>& requests, std::int64_t time);
  // A decision that is computed in parts. There is at most one; until it is finished or dropped,
  // `model` may only decide requests of users who have arrived: `can_decide` says so.
  // Returns an answer instead of beginning if the request needs no decision, or cannot get one.
  std::optional<Decided> begin_large(const std::string& model, const RankRequest& request,
                                     std::int64_t time);
  bool has_large() const { return large_.has_value(); }
  bool is_busy(const std::string& model) const { return large_ && large_->model == model; }
  bool can_decide(const std::string& model, const std::string& user_id);
  // Computes for about so long. Returns the outcome when it is known. `processor_seconds` is the
  // clock's.
  std::optional<Decided> advance_large(double seconds, std::int64_t time,
                                       const std::function<double()>& processor_seconds);
  void drop_large() { large_.reset(); }
  // Tells how many seconds of the processor the scores of so many actions took, for later
  // estimates.
  void note_pace(const std::string& model, std::size_t actions, double seconds);

  // Why ids could not be looked up in the storage the last time; empty if they could.
  const std::string& read_problem() const { return read_problem_; }
  void try_to_read();

  // Bytes of what the host knows of, and of what its owner holds beside it.
  double memory_used() const { return memory_.used(); }
  double memory_limit() const { return memory_.limit(); }
  void set_other_memory(double bytes) { memory_.set_other(bytes); }
  // Compares the account of the models' memory with what they say.
  void measure_memory();

  // The id of the decision for a slot of an event. Refuses (404) a slot that the event does not
  // have.
  std::string find_slot(const std::string& model, const std::string& event_id,
                        const std::string& slot);
  // Refuses (410) a reward for an event that ended so long ago that only its id is known.
  RewardOutcome reward(const std::string& model, const Reward& reward);
  // Activates all slots of the event. Does nothing for an event that is active. Refuses (410) one
  // that has ended without ever having been active, as far as is known.
  void activate(const std::string& model, const Activation& activation);
  struct FoundDecision {
    Decision decision;
    std::uint64_t position = 0;  // in the log
    bool waiting = false;        // for rewards
  };
  FoundDecision look_up(const std::string& model, const std::string& event_id);
  // The decisions of all slots of the event, those that can still be read; one for an event without
  // slots.
  std::vector<FoundDecision> look_up_slots(const std::string& model, const std::string& event_id);

  // For people, without any change (host_views.cpp).
  LogView log_view(const std::string& model, const std::string& user_id) const;
  // How the model would decide. An unknown user gets a learner that has learned nothing. Refuses
  // what would keep others waiting.
  Decision try_decision(const std::string& model, const RankRequest& request, std::int64_t time);
  // What stands behind the answer of a decision now. Throws RequestRefused if its user is gone.
  // Takes an estimated kLookSeconds, or the scores of kFewestSamples actions if that is longer.
  static constexpr double kLookSeconds = 0.02;
  static constexpr std::size_t kFewestSamples = 8;
  struct Behind {
    CloserLook look;
    std::vector<std::uint64_t> members;  // the first of them, as hashes of users; 0: a group's
    LogView view;                        // of everybody
  };
  Behind look_behind(const std::string& model, const Decision& decision);
  // Whether an event, by the hash of its id, waits for rewards. False for a model that is gone.
  bool is_waiting(std::uint32_t model, std::uint64_t event);
  // How far the shared learner of a model has moved (shared_movement).
  std::optional<double> movement(const std::string& model) const {
    return find(model).model->shared_movement();
  }
  // Appends the opinions of learners from number `next` on about arms, for about so long; for every
  // learner one for each arm. Returns true after the last learner.
  bool add_opinions(const std::string& model, double seconds, std::uint32_t& next,
                    const std::vector<RecentArm>& arms, std::vector<std::uint32_t>& learners,
                    std::vector<std::uint32_t>& lessons, std::vector<float>& opinions);

  // Ends waiting times, of `limit` events of each model or more if it is cheap. True: more are due.
  bool expire(std::int64_t time, std::size_t limit);
  // Learns what was put off.
  void learn();

  // Fits of the policies, one after the other over all models. Returns a fit to run now, if one is
  // in progress or due; `finish_fit` takes its result.
  std::shared_ptr<BackgroundFit> next_fit(std::int64_t time);
  // Gives the result to the model that waits for it. Returns false if there is none: it was
  // removed, made anew, or has forgotten a user. `seconds`: that the fit took.
  bool finish_fit(const BackgroundFit& fit, const std::string& result, double seconds,
                  std::int64_t time);

  // If a restart would replay for longer than `seconds`: snapshots of the models that would take
  // the longest, until the rest takes half of that time.
  std::vector<SnapshotJob> due_snapshots(double seconds);
  // Snapshots of those models that have not two at or after the given position. A model without new
  // events since its latest snapshot gets an event without effect, so that there can be a second.
  std::vector<SnapshotJob> snapshots_from(const LogPositions& wanted, std::int64_t time);
  // Snapshots of every model that has changed since its latest.
  std::vector<SnapshotJob> last_snapshots();
  void snapshot_written(std::uint32_t model, std::uint64_t position, bool alone);
  void snapshot_failed(std::uint32_t model);
  // For every model: the position up to which no restart needs its rows, even if its latest
  // snapshot is damaged; 0: it needs all of them.
  LogPositions erasable() const;

  // Drops all models, which ends their fits.
  void close() { models_.clear(); }

  Batch take_batch() { return std::exchange(batch_, {}); }
  // What the time series are to hear of once that batch is committed.
  std::vector<Observation> take_observed() { return std::exchange(observed_, {}); }
  // Whether these are to hear of decisions and rewards, too.
  void observe_decisions(bool wanted) { observes_decisions_ = wanted; }
  // True once an event could not be applied: a model may know half of it. The batch must not be
  // committed, and `recover` must make the models anew.
  bool broken() const { return broken_; }
  // The time of the latest event of all models.
  std::int64_t last_time() const;

 private:
  struct Hosted {
    std::uint32_t id = 0;
    std::string name;
    std::unique_ptr<Model> model;
    std::string computed_by;               // as in StoredModel, until now
    std::uint64_t computed_from = 0;       // as in StoredModel
    bool complete = true;                  // the log has all of its events
    std::uint64_t replayed_from = 0;       // where the last replay began
    std::uint64_t last_position = 0;       // of its latest event, committed or not
    std::vector<std::uint64_t> snapshots;  // positions, the latest first
    bool started = false;                  // its first event is a Start, which may not be committed
    bool snapshot_under_way = false;
    bool forgets = false;               // a user was forgotten since its last snapshot
    bool forgetting_under_way = false;  // the snapshot without that user is being written
    std::uint64_t rows_since_snapshot = 0;
    // Ids of which the rows may not be committed yet: key and position.
    std::map<std::uint64_t, std::uint64_t> fresh_ids;
    double seconds_since_snapshot = 0.0;  // that replaying these rows would take
    double pace = 1.0;                    // measured seconds of decisions for an estimated one
  };
  struct Large {
    std::string model;
    RankRequest request;
    Model::PartedDecision parted;
    double seconds_per_arm = 0.0;
  };

  void check_new_model(const std::string& name) const;
  // Throw RequestRefused if there is no such model.
  Hosted& find(const std::string& name);
  void reserve(const std::string& name, const PolicySize& size, double bytes, const char* what);
  void release(const std::string& name);
  const Hosted& find(const std::string& name) const;
  struct OwnedFit {
    Hosted* hosted = nullptr;
    std::string challenger;  // empty: of the model's own policy
  };
  std::optional<OwnedFit> owner_of(const BackgroundFit& fit);
  void host(const StoredModel& stored, bool from_base, Recovery& recovery);
  void load(Hosted& hosted, Recovery& recovery);
  bool may_replay(const Hosted& hosted, std::uint64_t after) const;
  void replay(Hosted& hosted, std::uint64_t after, Recovery& recovery);
  bool catch_up_with(const StoredModel& stored, Recovery& recovery);
  std::uint64_t log(Hosted& hosted, const Event& event, std::int64_t time, std::uint64_t user = 0,
                    std::uint64_t id = 0);
  void observe(const Hosted& hosted, const Event& event);
  void drop_committed_ids(Hosted& hosted);
  std::optional<std::uint64_t> find_id(Hosted& hosted, std::uint64_t key, std::int64_t time);
  RewardOutcome judge_by_id(Hosted& hosted, const Reward& reward, std::uint64_t event,
                            std::uint64_t id);
  std::optional<std::uint64_t> find_event(Hosted& hosted, const std::string& event_id,
                                          std::int64_t time);
  SnapshotJob make_snapshot(Hosted& hosted, bool alone = false);
  ModelReport report_of(const Hosted& hosted) const;
  Decided repeat(Hosted& hosted, const RankRequest& request, std::uint64_t position);
  std::optional<Decision> read_decision(Hosted& hosted, std::uint64_t position);
  void activate_one(Hosted& hosted, const Activation& activation);
  void judge_late_activation(Hosted& hosted, const Activation& activation);
  std::optional<Decided> answer_at_once(Hosted& hosted, const RankRequest& request,
                                        std::int64_t time);
  std::optional<ServiceError> admit(Hosted& hosted, const RankRequest& request, std::int64_t time);
  double seconds_per_action(const Hosted& hosted) const;
  std::vector<Decided> decide_fresh(Hosted& hosted, const std::vector<const RankRequest*>& requests,
                                    std::int64_t time);

  Storage& storage_;
  ThreadPool& threads_;
  std::uint64_t most_copied_;
  std::int64_t id_milliseconds_;  // for which ids are known
  std::map<std::string, Hosted> models_;
  std::uint64_t store_id_ = 0;
  double row_seconds_ = 20e-6;  // to read one row and apply it, without learning
  std::string last_fitted_;     // the model whose fit was started last
  Batch batch_;
  std::vector<Observation> observed_;
  bool observes_decisions_ = true;
  std::vector<EndedReward> ended_;  // by the event that is being applied
  bool broken_ = false;
  MemoryAccount memory_;
  std::map<std::string, double> reserved_;  // names of models that are being made, and their bytes
  std::string read_problem_;
  std::optional<Large> large_;
};

}  // namespace mcnb
