#include "mcnb/serve/model_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/hash.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kFewRows = 1000;  // that a snapshot is not worth
constexpr std::size_t kMostModels = 1000;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether a request asks again for what was decided.
bool same_request(const RankRequest& request, const Decision& decision, std::size_t dimension) {
  if (request.user_id != decision.user_id || request.deferred != decision.deferred ||
      request.actions.size() != decision.actions.size() ||
      request.features.size() != request.actions.size() * dimension) {
    return false;
  }
  for (std::size_t i = 0; i < request.actions.size(); ++i) {
    if (request.actions[i] != decision.actions[i].id) {
      return false;
    }
  }
  return request.features == decision.features;
}

}  // namespace

void write_batch(LogStore& store, const Batch& batch) {
  store.begin();
  try {
    for (const StoredModel& model : batch.created) {
      store.put_model(model);
    }
    for (const LogRow& row : batch.rows) {
      store.append(row);
    }
    for (const std::uint32_t model : batch.deleted) {
      store.remove_model(model);
    }
    for (const LogStore::Erasure& erasure : batch.erasures) {
      store.add_erasure(erasure);
    }
    store.commit();
  } catch (const Error&) {
    store.roll_back();
    throw;
  }
}

ModelHost::ModelHost(const std::filesystem::path& folder, ThreadPool& threads)
    : folder_(folder), threads_(threads), snapshots_(folder) {}

ModelHost::Hosted& ModelHost::find(const std::string& name) {
  const auto found = models_.find(name);
  if (found == models_.end()) {
    refuse_request(404, "unknown_model", fmt::format("there is no model \"{}\"", name), "model");
  }
  return found->second;
}

// The latest snapshot that can be read; without any, the model as it was born, if the log still
// begins there.
void ModelHost::load(Hosted& hosted, std::uint64_t base, std::uint64_t last, Recovery& recovery) {
  const ModelOptions options = hosted.model->options();
  std::string problems;
  std::vector<std::uint64_t> sound = hosted.snapshots;
  for (const std::uint64_t place : hosted.snapshots) {
    try {
      if (place > last) {
        throw Error(ErrorKind::kCorrupt,
                    fmt::format("{}: a snapshot of row {}, but the log ends at row {}: part of the "
                                "database is missing",
                                snapshots_.path(hosted.id, place).string(), place, last));
      }
      snapshots_.load(hosted.id, place, *hosted.model);
      hosted.snapshots = sound;
      for (const std::string& problem : {problems}) {
        if (!problem.empty()) {
          recovery.warnings.push_back(fmt::format(
              "model {}: went back to the snapshot of row {}: {}", hosted.name, place, problem));
        }
      }
      return;
    } catch (const Error& error) {
      if (place > last) {
        throw;
      }
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
      std::erase(sound, place);
      hosted.model = std::make_unique<Model>(options, threads_);
    }
  }
  if (hosted.born < base || !hosted.whole) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("model {}: no snapshot can be read, and the log no longer holds all of its "
                    "events{}",
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
    all[name] = hash_text(Snapshots::bytes_of(*hosted.model, name), 0);
  }
  return all;
}

Recovery ModelHost::recover(LogStore& store, bool from_base) {
  Recovery recovery;
  models_.clear();
  batch_ = {};
  const std::uint64_t base = store.base_place();
  last_place_ = store.last_place();
  last_model_id_ = store.last_model_id();
  std::map<std::uint32_t, Hosted*> by_id;
  std::uint64_t from = last_place_;
  for (const StoredModel& stored : store.models()) {
    ModelOptions options;
    for (const auto& [name, text] : stored.options) {
      set_option(options, name, text);
    }
    Hosted& hosted = models_[stored.name];
    hosted.id = stored.id;
    hosted.name = stored.name;
    hosted.born = stored.born;
    hosted.whole = stored.whole;
    hosted.model = std::make_unique<Model>(options, threads_);
    hosted.snapshots = snapshots_.places(stored.id);
    if (from_base && hosted.born >= base && hosted.whole) {
      hosted.snapshots.clear();
    } else if (from_base && !hosted.snapshots.empty()) {
      hosted.snapshots = {hosted.snapshots.back()};
    }
    load(hosted, base, last_place_, recovery);
    by_id[stored.id] = &hosted;
    from = std::min(from, hosted.snapshots.empty() ? hosted.born : hosted.snapshots.front());
  }
  std::set<std::uint32_t> orphans;
  const double begin = now_seconds();
  store.read_after(from, [&](const LogRow& row) {
    const auto found = by_id.find(row.model);
    if (found == by_id.end()) {
      orphans.insert(row.model);
      return;
    }
    Hosted& hosted = *found->second;
    if (!hosted.snapshots.empty() && row.place <= hosted.snapshots.front()) {
      return;
    }
    const std::string what = fmt::format("{}: log row {}", store.name(), row.place);
    const auto dimension = static_cast<std::size_t>(hosted.model->options().dimension);
    hosted.model->apply(decode_event(row.kind, row.body, dimension, what), row.place);
    ++hosted.rows_since_snapshot;
    ++recovery.rows;
  });
  double learning = 0.0;
  for (auto& [name, hosted] : models_) {
    hosted.model->learn_now();
    const double seconds = hosted.model->take_learning_seconds();
    hosted.seconds_since_snapshot = seconds;
    learning += seconds;
  }
  recovery.seconds = now_seconds() - begin;
  if (recovery.rows > kFewRows) {
    row_seconds_ = std::max(recovery.seconds - learning, 0.0) / static_cast<double>(recovery.rows);
  }
  for (auto& [name, hosted] : models_) {
    hosted.seconds_since_snapshot += row_seconds_ * static_cast<double>(hosted.rows_since_snapshot);
  }
  recovery.orphans.assign(orphans.begin(), orphans.end());
  return recovery;
}

// Applies an event and puts it into the batch: the one way by which models change.
std::uint64_t ModelHost::log(Hosted& hosted, const Event& event, std::int64_t time,
                             std::uint64_t user) {
  const std::uint64_t place = ++last_place_;
  batch_.rows.push_back({place, hosted.id, kind_of(event),
                         std::max(time, hosted.model->last_time()), user, encode_event(event)});
  hosted.model->apply(event, place);
  ++hosted.rows_since_snapshot;
  hosted.seconds_since_snapshot += row_seconds_;
  return place;
}

void ModelHost::create(const std::string& name, ModelOptions options) {
  if (!is_model_name(name)) {
    refuse_request(400, "bad_name",
                   fmt::format("expected 1 to {} letters, digits, '.', '_' or '-'", kLongestName),
                   "name");
  }
  if (models_.contains(name)) {
    refuse_request(409, "model_exists", fmt::format("there is a model \"{}\" already", name),
                   "name");
  }
  if (models_.size() >= kMostModels) {
    refuse_request(409, "too_many_models", fmt::format("there are {} models", kMostModels));
  }
  bound_histories(options);
  Hosted hosted;
  hosted.id = ++last_model_id_;
  hosted.name = name;
  hosted.born = last_place_;
  try {
    hosted.model = std::make_unique<Model>(options, threads_);
  } catch (const Error& error) {
    refuse_request(400, "bad_option", error.what());
  }
  batch_.created.push_back({hosted.id, name, option_values(options), hosted.born});
  models_.emplace(name, std::move(hosted));
}

void ModelHost::remove(const std::string& name) {
  batch_.deleted.push_back(find(name).id);
  models_.erase(name);
}

void ModelHost::change(const std::string& name, const OptionValues& settings, std::int64_t time) {
  Hosted& hosted = find(name);
  ModelOptions tried = hosted.model->options();
  for (const auto& [setting, text] : settings) {
    try {
      change_setting(tried, setting, text);
    } catch (const Error& error) {
      refuse_request(400, "bad_option", error.what(), setting);
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
          .last_place = model.last_place(),
          .snapshot_place = hosted.snapshots.empty() ? 0 : hosted.snapshots.front()};
}

ModelReport ModelHost::report(const std::string& name) const {
  return report_of(const_cast<ModelHost*>(this)->find(name));
}

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

SnapshotJob ModelHost::forget(const std::string& model, const std::string& user_id,
                              std::int64_t time) {
  Hosted& hosted = find(model);
  const std::uint64_t user = hosted.model->user_key(user_id);
  const std::uint64_t place = log(hosted, Forgetting{user, time}, time);
  last_erasure_ = {hosted.id, user, place};
  batch_.erasures.push_back(last_erasure_);
  SnapshotJob job = make_snapshot(hosted);
  job.alone = true;
  return job;
}

SnapshotJob ModelHost::snapshot(const std::string& model) { return make_snapshot(find(model)); }

SnapshotJob ModelHost::make_snapshot(Hosted& hosted) {
  hosted.snapshot_under_way = true;
  hosted.rows_since_snapshot = 0;
  hosted.seconds_since_snapshot = 0.0;
  return {hosted.id, last_place_, Snapshots::bytes_of(*hosted.model, hosted.name), false};
}

ModelHost::Decided ModelHost::repeat(Hosted& hosted, const RankRequest& request, LogStore& store) {
  const auto conflict = [&] {
    return ServiceError{
        409, "event_exists",
        fmt::format("event \"{}\" was decided before, for another request", request.event_id),
        "eventId", 0};
  };
  const std::uint64_t place = *hosted.model->find_decision(request.event_id);
  const std::optional<LogRow> row = store.read(place);
  if (!row || row->kind != EventKind::kDecision) {
    // Not on disk yet, or no longer: the first asker will be answered, this one may ask again.
    const bool soon = !batch_.rows.empty() && place >= batch_.rows.front().place;
    ServiceError error = conflict();
    if (soon || place > store.last_place()) {
      error = {503, "in_progress", "the same event is being decided", "eventId", 1};
    }
    return {std::nullopt, error};
  }
  const auto dimension = static_cast<std::size_t>(hosted.model->options().dimension);
  const Decision decision = std::get<Decision>(
      decode_event(row->kind, row->body, dimension, fmt::format("log row {}", place)));
  if (!same_request(request, decision, dimension)) {
    return {std::nullopt, conflict()};
  }
  return {decision, std::nullopt};
}

std::vector<ModelHost::Decided> ModelHost::decide(const std::string& model,
                                                  const std::vector<const RankRequest*>& requests,
                                                  std::int64_t time, LogStore& store) {
  std::vector<Decided> answers(requests.size());
  const auto refuse_all = [&](const ServiceError& error) {
    for (Decided& answer : answers) {
      if (!answer.decision && !answer.error) {
        answer.error = error;
      }
    }
  };
  try {
    Hosted& hosted = find(model);
    Model& state = *hosted.model;
    std::vector<const RankRequest*> fresh;
    std::vector<std::size_t> places;
    std::set<std::uint64_t> in_batch;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const RankRequest& request = *requests[i];
      if (state.find_decision(request.event_id)) {
        answers[i] = repeat(hosted, request, store);
      } else if (!in_batch.insert(state.event_key(request.event_id)).second) {
        answers[i].error =
            ServiceError{503, "in_progress", "the same event is being decided", "eventId", 1};
      } else if (request.features.size() != request.actions.size() * state.options().dimension) {
        answers[i].error = ServiceError{409, "model_changed", "the model has been made anew"};
      } else {
        if (state.needs_arrival(request.user_id)) {
          log(hosted, Arrival{state.user_key(request.user_id)}, time,
              state.user_key(request.user_id));
        }
        fresh.push_back(&request);
        places.push_back(i);
      }
    }
    std::vector<Decision> decisions = state.decide(fresh, time);
    for (std::size_t k = 0; k < decisions.size(); ++k) {
      log(hosted, decisions[k], decisions[k].time, state.user_key(decisions[k].user_id));
      answers[places[k]].decision = std::move(decisions[k]);
    }
  } catch (const RequestRefused& refused) {
    refuse_all(refused.error());
  } catch (const Error& error) {
    refuse_all({500, "model_diverged", error.what(), "", 0});
  }
  return answers;
}

RewardOutcome ModelHost::reward(const std::string& model, const Reward& reward) {
  Hosted& hosted = find(model);
  const RewardOutcome outcome = hosted.model->judge(reward);
  const bool changes = outcome == RewardOutcome::kLearned || outcome == RewardOutcome::kWaiting ||
                       outcome == RewardOutcome::kLate;
  if (changes) {
    const WaitingEvent* event = hosted.model->find_waiting(reward.event_id);
    log(hosted, reward, reward.time, event == nullptr ? 0 : event->user);
  }
  if (outcome == RewardOutcome::kUnknown) {
    refuse_request(404, "unknown_event", fmt::format("there is no event \"{}\"", reward.event_id),
                   "eventId");
  }
  return outcome;
}

bool ModelHost::activate(const std::string& model, const Activation& activation) {
  Hosted& hosted = find(model);
  const WaitingEvent* event = hosted.model->find_waiting(activation.event_id);
  if (event == nullptr) {
    if (hosted.model->find_decision(activation.event_id)) {
      return false;
    }
    refuse_request(404, "unknown_event",
                   fmt::format("there is no event \"{}\"", activation.event_id), "eventId");
  }
  if (!event->active) {
    log(hosted, activation, activation.time, event->user);
  }
  return true;
}

Decision ModelHost::look_up(const std::string& model, const std::string& event_id, LogStore& store,
                            bool* waiting) {
  Hosted& hosted = find(model);
  const std::optional<std::uint64_t> place = hosted.model->find_decision(event_id);
  const std::optional<LogRow> row = place ? store.read(*place) : std::nullopt;
  if (!row || row->kind != EventKind::kDecision) {
    refuse_request(404, "unknown_event", fmt::format("there is no event \"{}\"", event_id),
                   "eventId");
  }
  if (waiting != nullptr) {
    *waiting = hosted.model->is_waiting(event_id);
  }
  return std::get<Decision>(decode_event(
      row->kind, row->body, static_cast<std::size_t>(hosted.model->options().dimension),
      fmt::format("log row {}", *place)));
}

bool ModelHost::expire(std::int64_t time, std::size_t limit) {
  bool more = false;
  for (auto& [name, hosted] : models_) {
    const std::uint32_t count = hosted.model->due(time, limit);
    if (count > 0) {
      log(hosted, Expiry{time, count}, time);
      more = more || count == limit;
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

std::vector<SnapshotJob> ModelHost::due_snapshots(double seconds) {
  std::vector<SnapshotJob> jobs;
  for (auto& [name, hosted] : models_) {
    if (hosted.seconds_since_snapshot > seconds && hosted.rows_since_snapshot >= kFewRows &&
        !hosted.snapshot_under_way) {
      jobs.push_back(make_snapshot(hosted));
    }
  }
  return jobs;
}

std::vector<SnapshotJob> ModelHost::snapshots_from(std::uint64_t place) {
  std::vector<SnapshotJob> jobs;
  for (auto& [name, hosted] : models_) {
    const bool behind = hosted.snapshots.size() < 2 || hosted.snapshots.back() < place;
    const bool news = hosted.snapshots.empty() || hosted.snapshots.front() < last_place_;
    if (behind && news && !hosted.snapshot_under_way) {
      jobs.push_back(make_snapshot(hosted));
    }
  }
  return jobs;
}

void ModelHost::snapshot_written(std::uint32_t model, std::uint64_t place, bool alone) {
  for (auto& [name, hosted] : models_) {
    if (hosted.id == model) {
      hosted.snapshot_under_way = false;
      std::erase_if(hosted.snapshots, [&](std::uint64_t old) { return alone && old < place; });
      if (std::ranges::count(hosted.snapshots, place) == 0) {
        hosted.snapshots.push_back(place);
        std::ranges::sort(hosted.snapshots, std::greater<>());
      }
      if (hosted.snapshots.size() > 2) {
        hosted.snapshots.resize(2);
      }
    }
  }
}

void ModelHost::snapshot_failed(std::uint32_t model) {
  for (auto& [name, hosted] : models_) {
    if (hosted.id == model) {
      hosted.snapshot_under_way = false;
    }
  }
}

std::uint64_t ModelHost::erasable_until() const {
  std::uint64_t place = last_place_;
  for (const auto& [name, hosted] : models_) {
    place = std::min(place, hosted.snapshots.size() < 2 ? 0 : hosted.snapshots.back());
  }
  return place;
}

std::int64_t ModelHost::last_time() const {
  std::int64_t time = 0;
  for (const auto& [name, hosted] : models_) {
    time = std::max(time, hosted.model->last_time());
  }
  return time;
}

}  // namespace mcnb
