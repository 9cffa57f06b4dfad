#include "mcnb/serve/engine/model_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/model/hash.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kFewRows = 1000;  // too few to measure their time
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
    if (request.actions[i] != decision.actions[i].id ||
        request.eligible[i] != decision.actions[i].eligible) {
      return false;
    }
  }
  return request.features == decision.features;
}

// Why a request cannot be decided together with others; nothing where it can.
std::optional<ServiceError> fault_of(const RankRequest& request, std::size_t dimension) {
  if (request.features.size() != request.actions.size() * dimension) {
    return ServiceError{409, "model_changed", "the model has been made anew", "", 0};
  }
  if (!std::ranges::all_of(request.features, [](float x) { return std::isfinite(x); })) {
    return ServiceError{400, "bad_field", "expected features that are finite", "actions", 0};
  }
  return std::nullopt;
}

}  // namespace

void write_batch(LogStore& store, const Batch& batch) {
  store.begin();
  try {
    for (const Batch::ModelChange& change : batch.models) {
      if (const auto* made = std::get_if<StoredModel>(&change)) {
        store.put_model(*made);
      } else {
        store.remove_model(std::get<std::uint32_t>(change));
      }
    }
    for (const LogRow& row : batch.rows) {
      store.append(row);
    }
    for (const LogStore::Erasure& erasure : batch.erasures) {
      store.add_erasure(erasure);
    }
    store.commit();
  } catch (const std::exception&) {
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
      snapshots_.load(hosted.id, place, folder_id_, *hosted.model);
      hosted.snapshots = sound;
      if (!problems.empty()) {
        recovery.warnings.push_back(fmt::format("model {}: went back to the snapshot of row {}: {}",
                                                hosted.name, place, problems));
      }
      return;
    } catch (const Error& error) {
      if (place > last) {
        throw;
      }
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
      std::erase(sound, place);
      recovery.damaged.push_back({hosted.id, place});
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
  broken_ = false;
  folder_id_ = store.folder_id();
  const std::uint64_t base = store.base_place();
  last_place_ = store.last_place();
  last_model_id_ = store.last_model_id();
  std::set<std::uint32_t> known;
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
    known.insert(stored.id);
  }
  const double begin = now_seconds();
  for (auto& [name, hosted] : models_) {
    Hosted& own = hosted;
    const std::uint64_t from = own.snapshots.empty() ? own.born : own.snapshots.front();
    store.read_after(from, own.id, [&](const LogRow& row) {
      const std::string what = fmt::format("{}: log row {}", store.name(), row.place);
      const auto dimension = static_cast<std::size_t>(own.model->options().dimension);
      own.model->apply(decode_event(row.kind, row.body, dimension, what), row.place);
      ++own.rows_since_snapshot;
      ++recovery.rows;
    });
  }
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
  std::set<std::uint32_t> orphans;
  for (const std::vector<std::uint32_t>& found : {store.models_in_log(), snapshots_.models()}) {
    std::ranges::copy_if(found, std::inserter(orphans, orphans.end()), [&](std::uint32_t id) {
      return id <= last_model_id_ && !known.contains(id);
    });
  }
  recovery.orphans.assign(orphans.begin(), orphans.end());
  return recovery;
}

// Applies an event and puts it into the batch: the one way by which models change.
std::uint64_t ModelHost::log(Hosted& hosted, const Event& event, std::int64_t time,
                             std::uint64_t user) {
  LogRow row{last_place_ + 1,
             hosted.id,
             kind_of(event),
             std::max(time, hosted.model->last_time()),
             user,
             encode_event(event)};
  const std::uint64_t place = row.place;
  try {
    hosted.model->apply(event, place);
    batch_.rows.push_back(std::move(row));
  } catch (const std::exception&) {
    broken_ = true;
    throw;
  }
  last_place_ = place;
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
  } catch (const std::exception& error) {
    refuse_request(400, "bad_option",
                   fmt::format("the model is too large for this machine: {}", error.what()));
  }
  batch_.models.emplace_back(StoredModel{hosted.id, name, option_values(options), hosted.born});
  models_.emplace(name, std::move(hosted));
}

void ModelHost::remove(const std::string& name) {
  batch_.models.emplace_back(find(name).id);
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

LogStore::Erasure ModelHost::forget(const std::string& model, const std::string& user_id,
                                    std::int64_t time) {
  Hosted& hosted = find(model);
  if (hosted.forgetting_under_way) {
    throw RequestRefused(in_progress("others are being forgotten"));
  }
  const std::uint64_t user = hosted.model->user_key(user_id);
  const std::uint64_t place = log(hosted, Forgetting{user, time}, time);
  hosted.forgets = true;
  batch_.erasures.push_back({hosted.id, user, place});
  return batch_.erasures.back();
}

void ModelHost::resume(const LogStore::Erasure& erasure) {
  for (auto& [name, hosted] : models_) {
    hosted.forgets = hosted.forgets || hosted.id == erasure.model;
  }
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
      error = in_progress("the same event is being decided", "eventId");
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
        try {
          answers[i] = repeat(hosted, request, store);
        } catch (const Error& error) {
          answers[i].error = ServiceError{500, "internal", error.what(), "", 0};
        }
      } else if (!in_batch.insert(state.event_key(request.event_id)).second) {
        answers[i].error = in_progress("the same event is being decided", "eventId");
      } else if (const auto fault =
                     fault_of(request, static_cast<std::size_t>(state.options().dimension))) {
        answers[i].error = fault;
      } else {
        if (state.needs_arrival(request.user_id)) {
          log(hosted, Arrival{state.user_key(request.user_id)}, time,
              state.user_key(request.user_id));
        }
        fresh.push_back(&request);
        places.push_back(i);
      }
    }
    std::vector<std::optional<Decision>> decisions(fresh.size());
    try {
      std::ranges::move(state.decide(fresh, time), decisions.begin());
    } catch (const Error&) {
      // One by one: whoever cannot be answered is answered alone.
      for (std::size_t k = 0; k < fresh.size(); ++k) {
        try {
          decisions[k] = std::move(state.decide({&fresh[k], 1}, time).front());
        } catch (const Error& error) {
          answers[places[k]].error = ServiceError{500, "model_diverged", error.what(), "", 0};
        }
      }
    }
    for (std::size_t k = 0; k < decisions.size(); ++k) {
      if (decisions[k]) {
        log(hosted, *decisions[k], decisions[k]->time, state.user_key(decisions[k]->user_id));
        answers[places[k]].decision = std::move(*decisions[k]);
      }
    }
  } catch (const RequestRefused& refused) {
    refuse_all(refused.error());
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

std::int64_t ModelHost::last_time() const {
  std::int64_t time = 0;
  for (const auto& [name, hosted] : models_) {
    time = std::max(time, hosted.model->last_time());
  }
  return time;
}

}  // namespace mcnb
