// How the models' host decides, rewards and looks up events. Every id is recognised for some hours,
// whatever the models still remember, so that a request that is repeated changes nothing.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/model/event_keys.h"

namespace mcnb {
namespace {

// Returns true if a request asks again for what was decided.
bool same_request(const RankRequest& request, const Decision& decision, std::size_t dimension) {
  if (request.user_id != decision.user_id || request.deferred != decision.deferred ||
      request.slot != decision.slot || request.actions.size() != decision.actions.size() ||
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

ServiceError gone_event(const std::string& event_id) {
  return {ErrorCode::kEventGone,
          fmt::format("event \"{}\" was decided before, and its row was erased from the log "
                      "because of its age or the log's size",
                      event_id),
          "eventId"};
}

// Damage stays; any other failure of the storage may be gone when the request comes again.
ServiceError unreadable_event(const std::string& event_id, const Error& error) {
  if (error.kind() != ErrorKind::kCorrupt) {
    return {ErrorCode::kStorageFailed, error.what()};
  }
  return {ErrorCode::kEventDamaged,
          fmt::format("event \"{}\" was decided before, but it cannot be read: {}", event_id,
                      error.what()),
          "eventId"};
}

}  // namespace

std::optional<ServiceError> fault_of_request(const RankRequest& request, std::size_t dimension) {
  if (request.features.size() != request.actions.size() * dimension) {
    return ServiceError{ErrorCode::kModelChanged,
                        "the model was removed and made again: send the request again"};
  }
  if (!std::ranges::all_of(request.features, [](float x) { return std::isfinite(x); })) {
    return ServiceError{ErrorCode::kBadField, "expected features that are finite", "actions"};
  }
  return std::nullopt;
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

// Ids of committed rows are known to the storage. While it cannot be read, they are kept here, too.
void ModelHost::drop_committed_ids(Hosted& hosted) {
  if (hosted.fresh_ids.empty()) {
    return;
  }
  try {
    const std::uint64_t last = storage_.log().last_position(hosted.id);
    std::erase_if(hosted.fresh_ids, [&](const auto& entry) { return entry.second <= last; });
  } catch (const Error& error) {
    log_warning("the storage could not be read", {{"detail", error.what()}});
  }
}

// The position of the row that took in this id within the last hours; nullopt for an unknown id.
std::optional<std::uint64_t> ModelHost::find_id(Hosted& hosted, std::uint64_t key,
                                                std::int64_t time) {
  if (const auto fresh = hosted.fresh_ids.find(key); fresh != hosted.fresh_ids.end()) {
    return fresh->second;
  }
  if (key == 0 || id_milliseconds_ == 0) {
    return std::nullopt;
  }
  std::optional<EventId> found;
  try {
    found = storage_.log().find_id(hosted.id, key);
    read_problem_.clear();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      read_problem_ = error.what();
    }
    throw;
  }
  return found && found->time + id_milliseconds_ > time ? std::optional(found->position)
                                                        : std::nullopt;
}

void ModelHost::try_to_read() {
  try {
    storage_.log().find_id(0, 1);
    read_problem_.clear();
  } catch (const Error& error) {
    read_problem_ = error.what();
  }
}

// The position of an event's decision; nullopt for an unknown event.
std::optional<std::uint64_t> ModelHost::find_event(Hosted& hosted, const std::string& event_id,
                                                   std::int64_t time) {
  if (const auto position = hosted.model->find_decision(event_id)) {
    return position;
  }
  return find_id(hosted, hosted.model->event_key(event_id), time);
}

// The answer to a request for an event that was decided before.
ModelHost::Decided ModelHost::repeat(Hosted& hosted, const RankRequest& request,
                                     std::uint64_t position) {
  if (position > storage_.log().last_position(hosted.id)) {
    return {std::nullopt,
            ServiceError{ErrorCode::kInProgress, "the same event is being decided", "eventId"}};
  }
  std::optional<Decision> decision;
  try {
    decision = read_decision(hosted, position);
  } catch (const Error& error) {
    return {std::nullopt, unreadable_event(request.event_id, error)};
  }
  if (!decision) {
    return {std::nullopt, gone_event(request.event_id)};
  }
  const auto dimension = static_cast<std::size_t>(hosted.model->options().dimension);
  if (!same_request(request, *decision, dimension)) {
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
                                                            const RankRequest& request,
                                                            std::int64_t time) {
  try {
    if (const auto position = find_event(hosted, request.event_id, time)) {
      return repeat(hosted, request, *position);
    }
  } catch (const Error& error) {
    // Nobody knows whether it was decided before, so it must not be decided now.
    return Decided{std::nullopt, ServiceError{ErrorCode::kStorageFailed, error.what()}};
  }
  const auto fault =
      fault_of_request(request, static_cast<std::size_t>(hosted.model->options().dimension));
  return fault ? std::optional(Decided{std::nullopt, fault}) : std::nullopt;
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
      log(hosted, *answer.decision, answer.decision->time, model.user_key(answer.decision->user_id),
          model.event_key(answer.decision->event_id));
    }
  }
  return answers;
}

std::vector<ModelHost::Decided> ModelHost::decide(const std::string& model,
                                                  const std::vector<const RankRequest*>& requests,
                                                  std::int64_t time) {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    return std::vector<Decided>(
        requests.size(),
        {std::nullopt, ServiceError{ErrorCode::kUnknownModel,
                                    fmt::format("there is no model \"{}\"", model), "model"}});
  }
  Hosted& hosted = found->second;
  drop_committed_ids(hosted);
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
    if (auto answer = answer_at_once(hosted, request, time)) {
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
  const std::uint64_t event = hosted.model->event_key(reward.event_id);
  const std::uint64_t id = reward_id_key(event, reward.reward_id);
  switch (outcome) {
    case RewardOutcome::kLearned:
    case RewardOutcome::kWaiting:
    case RewardOutcome::kLate:
      log(hosted, reward, reward.time, hosted.model->user_of(reward.event_id), id);
      return outcome;
    case RewardOutcome::kDuplicate:
    case RewardOutcome::kIgnored:
      return outcome;
    case RewardOutcome::kUnknown:
      break;
  }
  return judge_by_id(hosted, reward, event, id);
}

// What becomes of a reward whose event the model does not remember.
RewardOutcome ModelHost::judge_by_id(Hosted& hosted, const Reward& reward, std::uint64_t event,
                                     std::uint64_t id) {
  try {
    if (find_id(hosted, id, reward.time)) {
      return RewardOutcome::kDuplicate;
    }
    if (find_id(hosted, event, reward.time)) {
      refuse_request(ErrorCode::kEventGone,
                     fmt::format("event \"{}\" has ended and is no longer remembered: the reward "
                                 "was not learned",
                                 reward.event_id),
                     "eventId");
    }
  } catch (const Error& error) {
    refuse_request(ErrorCode::kStorageFailed, error.what());
  }
  refuse_request(ErrorCode::kUnknownEvent, fmt::format("there is no event \"{}\"", reward.event_id),
                 "eventId");
}

std::string ModelHost::find_slot(const std::string& model, const std::string& event_id,
                                 const std::string& slot) {
  const std::string further = slot_event_id(event_id, slot, false);
  if (find(model).model->find_decision(further)) {
    return further;
  }
  const SlotOfEvent slots = look_up(model, event_id).decision.slot;
  const auto found = std::ranges::find(slots.ids, slot);
  if (found == slots.ids.end()) {
    refuse_request(ErrorCode::kUnknownSlot,
                   fmt::format("event \"{}\" has no slot \"{}\"", event_id, slot), "slot");
  }
  return found == slots.ids.begin() ? event_id : further;
}

void ModelHost::activate(const std::string& model, const Activation& activation) {
  Hosted& hosted = find(model);
  const WaitingEvent* const event = hosted.model->find_waiting(activation.event_id);
  std::optional<Decision> first;
  if (event != nullptr && !event->active) {
    try {
      first = read_decision(hosted, event->log_position);
    } catch (const Error& error) {
      throw RequestRefused(unreadable_event(activation.event_id, error));
    }
  }
  activate_one(hosted, activation);
  for (std::size_t i = 1; first && i < first->slot.ids.size(); ++i) {
    activate_one(hosted,
                 {slot_event_id(activation.event_id, first->slot.ids[i], false), activation.time});
  }
}

void ModelHost::activate_one(Hosted& hosted, const Activation& activation) {
  const WaitingEvent* event = hosted.model->find_waiting(activation.event_id);
  if (event == nullptr) {
    judge_late_activation(hosted, activation);
  } else if (!event->active) {
    log(hosted, activation, activation.time, event->user);
  }
}

// An event that a reward has ended was active, and so is every event that was not deferred.
void ModelHost::judge_late_activation(Hosted& hosted, const Activation& activation) {
  const std::string& event_id = activation.event_id;
  std::optional<Decision> decision;
  try {
    const auto position = find_event(hosted, event_id, activation.time);
    if (!position) {
      refuse_request(ErrorCode::kUnknownEvent, fmt::format("there is no event \"{}\"", event_id),
                     "eventId");
    }
    if (hosted.model->was_rewarded(event_id)) {
      return;
    }
    decision = read_decision(hosted, *position);
  } catch (const Error& error) {
    throw RequestRefused(unreadable_event(event_id, error));
  }
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
  try {
    const auto position = find_event(hosted, event_id, hosted.model->last_time());
    if (!position) {
      refuse_request(ErrorCode::kUnknownEvent, fmt::format("there is no event \"{}\"", event_id),
                     "eventId");
    }
    std::optional<Decision> decision = read_decision(hosted, *position);
    if (!decision && *position > storage_.log().last_position(hosted.id)) {
      refuse_request(ErrorCode::kInProgress, "the event is being decided", "eventId");
    }
    if (!decision) {
      throw RequestRefused(gone_event(event_id));
    }
    return {std::move(*decision), *position, hosted.model->is_waiting(event_id)};
  } catch (const Error& error) {
    throw RequestRefused(unreadable_event(event_id, error));
  }
}

std::vector<ModelHost::FoundDecision> ModelHost::look_up_slots(const std::string& model,
                                                               const std::string& event_id) {
  std::vector<FoundDecision> found{look_up(model, event_id)};
  const std::vector<std::string> slots = found.front().decision.slot.ids;
  for (std::size_t i = 1; i < slots.size(); ++i) {
    try {
      found.push_back(look_up(model, slot_event_id(event_id, slots[i], false)));
    } catch (const RequestRefused&) {  // its row is gone, or it was never decided
    }
  }
  return found;
}

}  // namespace mcnb
