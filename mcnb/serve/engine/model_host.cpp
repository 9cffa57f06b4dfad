#include "mcnb/serve/engine/model_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/model/computing_kind.h"
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

}  // namespace

ModelHost::ModelHost(Storage& storage, ThreadPool& threads, double memory_limit,
                     double idempotency_hours, std::uint64_t most_copied)
    : storage_(storage),
      threads_(threads),
      most_copied_(most_copied),
      id_milliseconds_(static_cast<std::int64_t>(idempotency_hours * 3'600'000.0)),
      memory_(memory_limit) {}

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
    if (position > hosted.last_position) {  // others may be adding rows
      hosted.last_position = storage_.log().last_position(hosted.id);
    }
    if (position > hosted.last_position) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: model {} has a snapshot of row {}, but its log ends at row {}: "
                              "part of the log is missing: restore it from a backup",
                              storage_.log().name(), hosted.name, position, hosted.last_position));
    }
    if (!may_replay(hosted, position)) {
      break;  // nor from older ones
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
  if (!may_replay(hosted, 0) && hosted.computed_by == computing_kind()) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("model {}: no snapshot from row {} on can be read, and another kind of "
                            "node made the rows before: restore a backup: {}",
                            hosted.name, hosted.computed_from, problems));
  }
  if (!may_replay(hosted, 0)) {
    throw ComputedElsewhere(
        ErrorKind::kSystem,
        fmt::format("{}: {}{}", storage_.log().name(),
                    computed_elsewhere(hosted.name, hosted.computed_by, computing_kind()),
                    problems.empty() ? "" : ": " + problems));
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

// Whether the rows after a position are none, or were made by nodes of this kind.
bool ModelHost::may_replay(const Hosted& hosted, std::uint64_t after) const {
  const bool is_ours = hosted.computed_by.empty() || hosted.computed_by == computing_kind();
  return after >= hosted.last_position || (is_ours && after >= hosted.computed_from);
}

std::vector<ModelHost::TakenOver> ModelHost::taken_over() const {
  std::vector<TakenOver> all;
  for (const auto& [name, hosted] : models_) {
    if (hosted.computed_by.empty()) {
      all.push_back({hosted.id, 0});
    } else if (hosted.computed_by != computing_kind()) {
      all.push_back({hosted.id, hosted.last_position});
    }
  }
  return all;
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
  hosted.computed_by = stored.computed_by;
  hosted.computed_from = stored.computed_from;
  hosted.complete = stored.complete;
  hosted.last_position = stored.last_position;
  hosted.model = std::make_unique<Model>(options, threads_);
  hosted.snapshots = storage_.snapshots().positions(stored.id);
  if (from_base && hosted.complete && may_replay(hosted, 0)) {
    hosted.snapshots.clear();
  } else if (from_base) {
    std::erase_if(hosted.snapshots,
                  [&](std::uint64_t position) { return !may_replay(hosted, position); });
    if (!hosted.snapshots.empty()) {
      hosted.snapshots = {hosted.snapshots.back()};
    }
  }
  load(hosted, recovery);
}

void ModelHost::replay(Hosted& hosted, std::uint64_t after, Recovery& recovery) {
  hosted.replayed_from = after;
  const auto dimension = static_cast<std::size_t>(hosted.model->options().dimension);
  const std::string log_name = storage_.log().name();
  storage_.log().replay(hosted.id, after, [&](const LogRow& row) {
    const std::string what =
        fmt::format("{}: model {}, log row {}", log_name, hosted.name, row.position);
    hosted.model->apply(decode_event(row.kind, row.body, dimension, what), row.position);
    hosted.last_position = std::max(hosted.last_position, row.position);
    ++hosted.rows_since_snapshot;
    ++recovery.rows;
  });
}

void ModelHost::clear() {
  drop_large();
  for (const auto& [name, hosted] : models_) {
    memory_.forget(hosted.id);
    memory_.drop_snapshots(hosted.id);
  }
  models_.clear();
  batch_ = {};
  observed_.clear();
  ended_.clear();
  broken_ = false;
}

Recovery ModelHost::recover(bool from_base) {
  Recovery recovery;
  clear();
  store_id_ = storage_.log().id();
  for (const StoredModel& stored : storage_.log().models()) {
    host(stored, from_base, recovery);
  }
  const double begin = now_seconds();
  double learning = 0.0;
  for (auto& [name, hosted] : models_) {
    replay(hosted, hosted.snapshots.empty() ? 0 : hosted.snapshots.front(), recovery);
    hosted.model->learn_now();
    hosted.seconds_since_snapshot = hosted.model->take_learning_seconds();
    learning += hosted.seconds_since_snapshot;
    hosted.model->report_ends_to(&ended_);
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

bool ModelHost::catch_up(Recovery& recovery) {
  const double begin = now_seconds();
  const std::vector<StoredModel> stored = storage_.log().models();
  std::erase_if(models_, [&](const auto& entry) {
    const bool is_removed = std::ranges::none_of(stored, [&](const StoredModel& model) {
      return model.id == entry.second.id && model.name == entry.first;
    });
    if (is_removed) {
      memory_.forget(entry.second.id);
    }
    return is_removed;
  });
  for (const StoredModel& model : stored) {
    if (!catch_up_with(model, recovery)) {
      return false;
    }
  }
  recovery.seconds += now_seconds() - begin;
  return true;
}

bool ModelHost::catch_up_with(const StoredModel& stored, Recovery& recovery) {
  // Rows are erased only up to the oldest snapshot. As long as that is not beyond where a replay
  // began, no row was missing.
  const auto was_whole = [&](Hosted& hosted) {
    hosted.snapshots = storage_.snapshots().positions(hosted.id);
    return hosted.snapshots.empty() || hosted.snapshots.back() <= hosted.replayed_from;
  };
  const bool is_new = !models_.contains(stored.name);
  if (is_new) {
    host(stored, false, recovery);
  }
  Hosted& hosted = models_[stored.name];
  if (hosted.computed_by != stored.computed_by || (!is_new && !was_whole(hosted))) {
    return false;
  }
  hosted.complete = stored.complete;
  hosted.last_position = std::max(hosted.last_position, stored.last_position);
  hosted.model->report_ends_to(nullptr);
  replay(hosted, hosted.model->last_position(), recovery);
  hosted.model->learn_now();
  hosted.seconds_since_snapshot += hosted.model->take_learning_seconds();
  hosted.model->report_ends_to(&ended_);
  return was_whole(hosted);
}

// Applies an event and puts it into the batch: the one way by which models change. `id`: of the
// event's id, if repetitions of it must be recognised. Returns its position.
std::uint64_t ModelHost::log(Hosted& hosted, const Event& event, std::int64_t time,
                             std::uint64_t user, std::uint64_t id) {
  LogRow row{hosted.id,      hosted.last_position + 1,
             kind_of(event), std::max(time, hosted.model->last_time()),
             user,           encode_event(event)};
  try {
    hosted.model->apply(event, row.position);
    observe(hosted, event);
    if (id != 0 && id_milliseconds_ > 0) {
      batch_.ids.push_back({hosted.id, id, row.position, row.time, user});
      hosted.fresh_ids[id] = row.position;
    }
    batch_.rows.push_back(std::move(row));
  } catch (const std::exception&) {
    broken_ = true;
    throw;
  }
  ++hosted.rows_since_snapshot;
  hosted.seconds_since_snapshot += row_seconds_;
  return ++hosted.last_position;
}

void ModelHost::observe(const Hosted& hosted, const Event& event) {
  const std::vector<EndedReward> all_ended = std::exchange(ended_, {});
  if (const auto* forgetting = std::get_if<Forgetting>(&event)) {
    observed_.emplace_back(UserForgotten{hosted.id, forgetting->user});
  } else if (const auto* change = std::get_if<SettingsChange>(&event)) {
    std::string text;
    for (const auto& [name, value] : change->settings) {
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
    }
    observed_.emplace_back(SettingsSeen{hosted.id, change->time, text});
  }
  if (!observes_decisions_) {
    return;
  }
  if (const auto* decision = std::get_if<Decision>(&event)) {
    const auto eligible = std::ranges::count(decision->actions, true, &LoggedAction::eligible);
    const LoggedAction& answer = decision->actions[decision->chosen];
    observed_.emplace_back(DecisionSeen{
        .model = hosted.id,
        .event = hosted.model->event_key(decision->event_id),
        .user = hosted.model->user_key(decision->user_id),
        .time = decision->time,
        .propensity = answer.probability,
        .actions = static_cast<std::uint32_t>(eligible),
        .first = decision->arm == 0,
        .explored = decision->mode == ModelMode::kOnline && decision->chosen != decision->preferred,
        .action = answer.id});
  }
  for (const EndedReward& ended : all_ended) {
    observed_.emplace_back(EventEnded{hosted.id, ended.event, ended.reward, ended.rewarded});
  }
}

void ModelHost::remove(const std::string& name) {
  Hosted& hosted = find(name);
  observed_.emplace_back(ModelRemoved{hosted.id});
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
          .estimate_per_action = model.seconds_of_arm(),
          .arms_apart = model.arms_apart(),
          .steps = model.steps(),
          .estimates = model.estimates()};
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

std::vector<Erasure> ModelHost::forget(const std::string& model, const std::string& user_id,
                                       std::int64_t time) {
  Hosted& hosted = find(model);
  if (hosted.forgetting_under_way) {
    refuse_request(ErrorCode::kInProgress, "other users of the model are being forgotten");
  }
  bool started = hosted.started;
  try {
    const std::optional<LogRow> first = storage_.log().read(hosted.id, 1);
    started = started || (first && first->kind == EventKind::kStart);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kStorageFailed, error.what());
  }
  const std::uint64_t user = hosted.model->user_key(user_id);
  const std::uint64_t position = log(hosted, Forgetting{user, time}, time);
  hosted.forgets = true;
  std::vector<Erasure> erasures{{hosted.id, user, position}};
  if (started) {
    erasures.push_back({hosted.id, kAllUsers, position});
  }
  std::ranges::copy(erasures, std::back_inserter(batch_.erasures));
  return erasures;
}

void ModelHost::resume(const Erasure& erasure) {
  for (auto& [name, hosted] : models_) {
    hosted.forgets = hosted.forgets || hosted.id == erasure.model;
  }
}

bool ModelHost::expire(std::int64_t time, std::size_t limit) {
  bool more = false;
  for (auto& [name, hosted] : models_) {
    // As many as can be learned in little time.
    const double affordable = kExpirySeconds / seconds_per_action(hosted);
    const std::size_t most =
        std::max(limit, static_cast<std::size_t>(std::clamp(affordable, 8.0, kMostExpiries)));
    const std::uint32_t count = is_busy(name) ? 0 : hosted.model->due(time, most);
    if (count > 0 || (!is_busy(name) && hosted.model->outcomes_are_due(time))) {
      log(hosted, Expiry{time, count}, time);
      more = more || (count > 0 && count == most);
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
