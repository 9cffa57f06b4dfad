#include "mcnb/serve/engine/model_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/model/model_state.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kFewRows = 1000;  // replay too fast for their time to be measured
constexpr double kExpirySeconds = 0.02;   // that a model may learn from waiting times at once
constexpr double kMostExpiries = 256.0;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ServiceError unknown_model(const std::string& name) {
  return {ErrorCode::kUnknownModel, fmt::format("there is no model \"{}\"", name), "model"};
}

template <class Models>
auto& find_in(Models& models, const std::string& name) {
  const auto found = models.find(name);
  if (found == models.end()) {
    throw RequestRefused(unknown_model(name));
  }
  return found->second;
}

// Returns true if a request asks again for what was decided.
bool same_request(const RankRequest& request, const Decision& decision, std::size_t dimension) {
  if (request.user_id != decision.user_id || request.deferred != decision.deferred ||
      request.actions.size() != decision.actions.size() ||
      request.features.size() != request.actions.size() * dimension) {
    return false;
  }
  for (std::size_t i = 0; i < request.actions.size(); ++i) {
    if (request.actions[i] != decision.actions[i].id ||
        request.eligible[i] != decision.actions[i].eligible) {
      return false;
    }
  }
  return request.features == decision.features;
}

// Returns an error if the request cannot be decided, otherwise nullopt.
std::optional<ServiceError> fault_of(const RankRequest& request, std::size_t dimension) {
  if (request.features.size() != request.actions.size() * dimension) {
    return ServiceError{ErrorCode::kModelChanged,
                        "the model was removed and made again: send the request again"};
  }
  if (!std::ranges::all_of(request.features, [](float x) { return std::isfinite(x); })) {
    return ServiceError{ErrorCode::kBadField, "expected features that are finite", "actions"};
  }
  return std::nullopt;
}

}  // namespace

ModelHost::ModelHost(Storage& storage, ThreadPool& threads, double memory_limit)
    : storage_(storage), threads_(threads), memory_(memory_limit) {}

ModelHost::Hosted& ModelHost::find(const std::string& name) { return find_in(models_, name); }

const ModelHost::Hosted& ModelHost::find(const std::string& name) const {
  return find_in(models_, name);
}

// Loads the latest snapshot that can be read. Without any, the model stays empty if the log has all
// of its events.
void ModelHost::load(Hosted& hosted, Recovery& recovery) {
  const ModelOptions options = hosted.model->options();
  std::string problems;
  std::vector<std::uint64_t> sound = hosted.snapshots;
  for (const std::uint64_t position : hosted.snapshots) {
    if (position > hosted.last_position) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: model {} has a snapshot of row {}, but its log ends at row {}: "
                              "part of the log is missing: restore it from a backup",
                              storage_.log().name(), hosted.name, position, hosted.last_position));
    }
    try {
      const SnapshotSource source = storage_.snapshots().open(hosted.id, position);
      load_snapshot(*source.bytes, source.name, store_id_, *hosted.model);
      hosted.snapshots = sound;
      if (!problems.empty()) {
        recovery.warnings.push_back(fmt::format("model {}: went back to the snapshot of row {}: {}",
                                                hosted.name, position, problems));
      }
      return;
    } catch (const Error& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
      std::erase(sound, position);
      recovery.damaged.push_back({hosted.id, position});
      hosted.model = std::make_unique<Model>(options, threads_);
    }
  }
  if (!hosted.complete) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("model {}: no snapshot can be read, and the log no longer holds all of its "
                    "events: restore a backup{}",
                    hosted.name, problems.empty() ? "" : ": " + problems));
  }
  hosted.snapshots = sound;
  if (!problems.empty()) {
    recovery.warnings.push_back(
        fmt::format("model {}: replays its whole log: {}", hosted.name, problems));
  }
}

std::map<std::string, std::uint64_t> ModelHost::digests() {
  std::map<std::string, std::uint64_t> all;
  for (auto& [name, hosted] : models_) {
    all[name] = hash_bytes(state_bytes(*hosted.model));
  }
  return all;
}

// Makes a model as its snapshots say, without the rows after them.
void ModelHost::host(const StoredModel& stored, bool from_base, Recovery& recovery) {
  const ModelOptions options = stored_model_options(stored.options);
  Hosted& hosted = models_[stored.name];
  hosted.id = stored.id;
  hosted.name = stored.name;
  hosted.complete = stored.complete;
  hosted.last_position = stored.last_position;
  hosted.model = std::make_unique<Model>(options, threads_);
  hosted.snapshots = storage_.snapshots().positions(stored.id);
  if (from_base && hosted.complete) {
    hosted.snapshots.clear();
  } else if (from_base && !hosted.snapshots.empty()) {
    hosted.snapshots = {hosted.snapshots.back()};
  }
  load(hosted, recovery);
}

void ModelHost::replay(Hosted& hosted, Recovery& recovery) {
  const std::uint64_t from = hosted.snapshots.empty() ? 0 : hosted.snapshots.front();
  const auto dimension = static_cast<std::size_t>(hosted.model->options().dimension);
  const std::string log_name = storage_.log().name();
  storage_.log().replay(hosted.id, from, [&](const LogRow& row) {
    const std::string what =
        fmt::format("{}: model {}, log row {}", log_name, hosted.name, row.position);
    hosted.model->apply(decode_event(row.kind, row.body, dimension, what), row.position);
    ++hosted.rows_since_snapshot;
    ++recovery.rows;
  });
}

Recovery ModelHost::recover(bool from_base) {
  Recovery recovery;
  drop_large();
  for (const auto& [name, hosted] : models_) {
    memory_.forget(hosted.id);
    memory_.drop_snapshots(hosted.id);
  }
  models_.clear();
  batch_ = {};
  broken_ = false;
  store_id_ = storage_.log().id();
  for (const StoredModel& stored : storage_.log().models()) {
    host(stored, from_base, recovery);
  }
  const double begin = now_seconds();
  double learning = 0.0;
  for (auto& [name, hosted] : models_) {
    replay(hosted, recovery);
    hosted.model->learn_now();
    hosted.seconds_since_snapshot = hosted.model->take_learning_seconds();
    learning += hosted.seconds_since_snapshot;
  }
  recovery.seconds = now_seconds() - begin;
  if (recovery.rows > kFewRows) {
    row_seconds_ = std::max(recovery.seconds - learning, 0.0) / static_cast<double>(recovery.rows);
  }
  for (auto& [name, hosted] : models_) {
    hosted.seconds_since_snapshot += row_seconds_ * static_cast<double>(hosted.rows_since_snapshot);
  }
  return recovery;
}

// Applies an event and puts it into the batch: the one way by which models change. Returns its
// position.
std::uint64_t ModelHost::log(Hosted& hosted, const Event& event, std::int64_t time,
                             std::uint64_t user) {
  LogRow row{hosted.id,      hosted.last_position + 1,
             kind_of(event), std::max(time, hosted.model->last_time()),
             user,           encode_event(event)};
  try {
    hosted.model->apply(event, row.position);
    batch_.rows.push_back(std::move(row));
  } catch (const std::exception&) {
    broken_ = true;
    throw;
  }
  ++hosted.rows_since_snapshot;
  hosted.seconds_since_snapshot += row_seconds_;
  return ++hosted.last_position;
}

void ModelHost::remove(const std::string& name) {
  Hosted& hosted = find(name);
  batch_.models.emplace_back(hosted.id);
  memory_.forget(hosted.id);
  models_.erase(name);
}

void ModelHost::change(const std::string& name, const OptionValues& settings, std::int64_t time) {
  Hosted& hosted = find(name);
  ModelOptions tried = hosted.model->options();
  for (const auto& [setting, text] : settings) {
    try {
      change_setting(tried, setting, text);
    } catch (const Error& error) {
      refuse_request(ErrorCode::kBadOption, error.what(), setting);
    }
  }
  log(hosted, SettingsChange{time, settings}, time);
}

ModelReport ModelHost::report_of(const Hosted& hosted) const {
  const Model& model = *hosted.model;
  return {.id = hosted.id,
          .name = hosted.name,
          .options = model.options(),
          .counts = model.counts(),
          .waiting = model.waiting_count(),
          .users = model.users().count(),
          .learners = std::max(model.users().learner_count(), model.users().first_learners()),
          .memory_bytes = model.memory_bytes(),
          .version = model.version(),
          .last_position = model.last_position(),
          .snapshot_position = hosted.snapshots.empty() ? 0 : hosted.snapshots.front(),
          .last_refusal = model.last_refusal(),
          .seconds_per_action = seconds_per_action(hosted),
          .estimate_per_action = model.size().seconds_of_arm(model.taught_learners()),
          .arms_apart = model.arms_apart()};
}

ModelReport ModelHost::report(const std::string& name) const { return report_of(find(name)); }

std::vector<ModelReport> ModelHost::reports() const {
  std::vector<ModelReport> all;
  for (const auto& [name, hosted] : models_) {
    all.push_back(report_of(hosted));
  }
  return all;
}

UserReport ModelHost::user(const std::string& model, const std::string& user_id) {
  return find(model).model->user_report(user_id);
}

Erasure ModelHost::forget(const std::string& model, const std::string& user_id, std::int64_t time) {
  Hosted& hosted = find(model);
  if (hosted.forgetting_under_way) {
    refuse_request(ErrorCode::kInProgress, "other users of the model are being forgotten");
  }
  const std::uint64_t user = hosted.model->user_key(user_id);
  const std::uint64_t position = log(hosted, Forgetting{user, time}, time);
  hosted.forgets = true;
  batch_.erasures.push_back({hosted.id, user, position});
  return batch_.erasures.back();
}

void ModelHost::resume(const Erasure& erasure) {
  for (auto& [name, hosted] : models_) {
    hosted.forgets = hosted.forgets || hosted.id == erasure.model;
  }
}

std::optional<Decision> ModelHost::read_decision(Hosted& hosted, std::uint64_t position) {
  const std::optional<LogRow> row = storage_.log().read(hosted.id, position);
  if (!row || row->kind != EventKind::kDecision) {
    return std::nullopt;
  }
  return std::get<Decision>(decode_event(
      row->kind, row->body, static_cast<std::size_t>(hosted.model->options().dimension),
      fmt::format("model {}, log row {}", hosted.name, position)));
}

// The answer to a request for an event that was decided before.
ModelHost::Decided ModelHost::repeat(Hosted& hosted, const RankRequest& request) {
  const std::uint64_t position = *hosted.model->find_decision(request.event_id);
  if (position > storage_.log().last_position(hosted.id)) {
    return {std::nullopt,
            ServiceError{ErrorCode::kInProgress, "the same event is being decided", "eventId"}};
  }
  std::optional<Decision> decision = read_decision(hosted, position);
  const auto dimension = static_cast<std::size_t>(hosted.model->options().dimension);
  if (!decision || !same_request(request, *decision, dimension)) {
    return {std::nullopt,
            ServiceError{ErrorCode::kEventExists,
                         fmt::format("event \"{}\" was decided before, for another request",
                                     request.event_id),
                         "eventId"}};
  }
  return {std::move(decision), std::nullopt};
}

// Answers a request that needs no decision: it was decided before, or it is faulty.
std::optional<ModelHost::Decided> ModelHost::answer_at_once(Hosted& hosted,
                                                            const RankRequest& request) {
  if (!hosted.model->find_decision(request.event_id)) {
    const auto fault =
        fault_of(request, static_cast<std::size_t>(hosted.model->options().dimension));
    return fault ? std::optional(Decided{std::nullopt, fault}) : std::nullopt;
  }
  try {
    return repeat(hosted, request);
  } catch (const Error& error) {
    return Decided{std::nullopt, ServiceError{ErrorCode::kInternal, error.what()}};
  }
}

// Lets the user of a request arrive, if it is a new one. Returns an error if there is no memory for
// the decision.
std::optional<ServiceError> ModelHost::admit(Hosted& hosted, const RankRequest& request,
                                             std::int64_t time) {
  const bool arrives = hosted.model->needs_arrival(request.user_id);
  const double bytes = hosted.model->bytes_of_decision(request.user_id);
  const auto use = arrives ? MemoryAccount::Use::kNewUser : MemoryAccount::Use::kDecision;
  if (!memory_.has_room(bytes, use)) {
    return memory_.refusal(arrives ? "no memory for another user"
                                   : "no memory for another decision");
  }
  memory_.grow(hosted.id, bytes);
  if (arrives) {
    const std::uint64_t user = hosted.model->user_key(request.user_id);
    log(hosted, Arrival{user}, time, user);
  }
  return std::nullopt;
}

// Decides requests of users who have arrived.
std::vector<ModelHost::Decided> ModelHost::decide_fresh(
    Hosted& hosted, const std::vector<const RankRequest*>& requests, std::int64_t time) {
  Model& model = *hosted.model;
  std::vector<Decided> answers(requests.size());
  try {
    std::vector<Decision> decisions = model.decide(requests, time);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      answers[i].decision = std::move(decisions[i]);
    }
  } catch (const Error&) {
    // One by one, so that only those fail that cannot be decided.
    for (std::size_t i = 0; i < requests.size(); ++i) {
      try {
        answers[i].decision = std::move(model.decide({&requests[i], 1}, time).front());
      } catch (const Error& error) {
        answers[i].error = ServiceError{ErrorCode::kModelDiverged, error.what()};
      }
    }
  }
  for (const Decided& answer : answers) {
    if (answer.decision) {
      log(hosted, *answer.decision, answer.decision->time,
          model.user_key(answer.decision->user_id));
    }
  }
  return answers;
}

std::vector<ModelHost::Decided> ModelHost::decide(const std::string& model,
                                                  const std::vector<const RankRequest*>& requests,
                                                  std::int64_t time) {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    return std::vector<Decided>(requests.size(), {std::nullopt, unknown_model(model)});
  }
  Hosted& hosted = found->second;
  Model& state = *hosted.model;
  std::vector<Decided> answers(requests.size());
  std::vector<const RankRequest*> fresh;
  std::vector<std::size_t> fresh_indices;  // in `requests`
  std::set<std::uint64_t> in_batch;
  if (is_busy(model)) {
    in_batch.insert(state.event_key(large_->request.event_id));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RankRequest& request = *requests[i];
    if (auto answer = answer_at_once(hosted, request)) {
      answers[i] = std::move(*answer);
    } else if (!in_batch.insert(state.event_key(request.event_id)).second) {
      answers[i].error =
          ServiceError{ErrorCode::kInProgress, "the same event is being decided", "eventId"};
    } else if (auto refusal = admit(hosted, request, time)) {
      answers[i].error = std::move(*refusal);
    } else {
      fresh.push_back(&request);
      fresh_indices.push_back(i);
    }
  }
  std::vector<Decided> decided = decide_fresh(hosted, fresh, time);
  for (std::size_t k = 0; k < fresh.size(); ++k) {
    answers[fresh_indices[k]] = std::move(decided[k]);
  }
  return answers;
}

RewardOutcome ModelHost::reward(const std::string& model, const Reward& reward) {
  Hosted& hosted = find(model);
  const RewardOutcome outcome = hosted.model->judge(reward);
  const bool changes = outcome == RewardOutcome::kLearned || outcome == RewardOutcome::kWaiting ||
                       outcome == RewardOutcome::kLate;
  if (changes) {
    log(hosted, reward, reward.time, hosted.model->user_of(reward.event_id));
  }
  if (outcome == RewardOutcome::kUnknown) {
    refuse_request(ErrorCode::kUnknownEvent,
                   fmt::format("there is no event \"{}\"", reward.event_id), "eventId");
  }
  return outcome;
}

void ModelHost::activate(const std::string& model, const Activation& activation) {
  Hosted& hosted = find(model);
  const WaitingEvent* event = hosted.model->find_waiting(activation.event_id);
  if (event == nullptr) {
    judge_late_activation(hosted, activation.event_id);
  } else if (!event->active) {
    log(hosted, activation, activation.time, event->user);
  }
}

// An event that a reward has ended was active, and so is every event that was not deferred.
void ModelHost::judge_late_activation(Hosted& hosted, const std::string& event_id) {
  const std::optional<std::uint64_t> position = hosted.model->find_decision(event_id);
  if (!position) {
    refuse_request(ErrorCode::kUnknownEvent, fmt::format("there is no event \"{}\"", event_id),
                   "eventId");
  }
  if (hosted.model->was_rewarded(event_id)) {
    return;
  }
  const std::optional<Decision> decision = read_decision(hosted, *position);
  if (!decision || decision->deferred) {
    refuse_request(ErrorCode::kEventEnded,
                   fmt::format("the waiting time of event \"{}\" is over: activating it changes "
                               "nothing any more, and unless it was activated before, nothing was "
                               "learned from it",
                               event_id),
                   "eventId");
  }
}

ModelHost::FoundDecision ModelHost::look_up(const std::string& model, const std::string& event_id) {
  Hosted& hosted = find(model);
  const std::optional<std::uint64_t> position = hosted.model->find_decision(event_id);
  std::optional<Decision> decision = position ? read_decision(hosted, *position) : std::nullopt;
  if (!decision) {
    refuse_request(ErrorCode::kUnknownEvent, fmt::format("there is no event \"{}\"", event_id),
                   "eventId");
  }
  return {std::move(*decision), hosted.model->is_waiting(event_id)};
}

bool ModelHost::expire(std::int64_t time, std::size_t limit) {
  bool more = false;
  for (auto& [name, hosted] : models_) {
    // As many as can be learned in little time.
    const double affordable = kExpirySeconds / seconds_per_action(hosted);
    const std::size_t most =
        std::max(limit, static_cast<std::size_t>(std::clamp(affordable, 8.0, kMostExpiries)));
    const std::uint32_t count = is_busy(name) ? 0 : hosted.model->due(time, most);
    if (count > 0) {
      log(hosted, Expiry{time, count}, time);
      more = more || count == most;
    }
  }
  return more;
}

void ModelHost::learn() {
  for (auto& [name, hosted] : models_) {
    hosted.model->learn_now();
    hosted.seconds_since_snapshot += hosted.model->take_learning_seconds();
  }
}

std::int64_t ModelHost::last_time() const {
  std::int64_t time = 0;
  for (const auto& [name, hosted] : models_) {
    time = std::max(time, hosted.model->last_time());
  }
  return time;
}

}  // namespace mcnb
