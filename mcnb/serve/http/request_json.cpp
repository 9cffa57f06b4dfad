#include "mcnb/serve/http/request_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/feature_reader.h"
#include "mcnb/serve/http/identifiers.h"
#include "mcnb/serve/http/json_reader.h"
#include "mcnb/serve/model/event_keys.h"

namespace mcnb {
namespace {

using std::string_view;

constexpr std::array kRankFields{string_view("eventId"),         string_view("userId"),
                                 string_view("actions"),         string_view("contextFeatures"),
                                 string_view("excludedActions"), string_view("deferActivation"),
                                 string_view("explain"),         string_view("slots")};
constexpr std::array kPersonalizerRankFields{
    string_view("eventId"), string_view("actions"), string_view("contextFeatures"),
    string_view("excludedActions"), string_view("deferActivation")};
constexpr std::array kPersonalizerSlotsFields{string_view("eventId"), string_view("actions"),
                                              string_view("contextFeatures"), string_view("slots"),
                                              string_view("deferActivation")};
constexpr std::array kSlotFields{string_view("id"), string_view("features"),
                                 string_view("excludedActions"), string_view("baselineAction")};
// Clients of the retired service write null for the fields that they leave out.
constexpr std::array kNullableFields{string_view("eventId"), string_view("contextFeatures"),
                                     string_view("excludedActions"),
                                     string_view("deferActivation")};
constexpr std::array kActionFields{string_view("id"), string_view("features")};
constexpr std::array kRewardFields{string_view("value"), string_view("rewardId"),
                                   string_view("slot")};
constexpr std::array kSlotRewardsFields{string_view("reward")};
constexpr std::array kSlotRewardFields{string_view("slotId"), string_view("value")};
constexpr std::array kPersonalizerRewardFields{string_view("value")};

JsonFields rank_fields(string_view body, Dialect dialect) {
  const JsonObject object = parse_object(body);
  if (dialect == Dialect::kOwn) {
    return {object, kRankFields};
  }
  const bool slots = dialect == Dialect::kPersonalizerSlots;
  JsonFields fields = slots ? JsonFields(object, kPersonalizerSlotsFields)
                            : JsonFields(object, kPersonalizerRankFields);
  for (const string_view name : kNullableFields) {
    if (!slots || name != "excludedActions") {
      fields.drop_null(name);
    }
  }
  return fields;
}

std::string read_user(const JsonFields& fields, const std::optional<std::string>& in_context,
                      Dialect dialect) {
  if (const JsonValue* user = fields.find("userId")) {
    return read_id(*user, "userId");
  }
  if (in_context) {
    check_id(*in_context, "contextFeatures");
    return *in_context;
  }
  if (dialect == Dialect::kOwn) {
    refuse_field("userId", "expected a string");
  }
  return kEverybody;
}

void read_actions(const JsonValue& value, std::uint64_t dimension, FeatureReader& features,
                  RankRequest& request) {
  const std::size_t most =
      std::min(kMostActions, kMostNumbers / static_cast<std::size_t>(dimension));
  JsonArray actions;
  if (value.get(actions) != simdjson::SUCCESS) {
    refuse_field("actions", "expected an array");
  }
  std::unordered_set<string_view> ids;
  for (const JsonValue action : actions) {
    const std::string name = fmt::format("actions[{}]", request.actions.size());
    JsonObject object;
    if (action.get(object) != simdjson::SUCCESS) {
      refuse_field(name, "expected an object");
    }
    if (request.actions.size() >= most) {
      refuse_field("actions",
                   fmt::format("expected at most {} actions of {} numbers each", most, dimension));
    }
    const JsonFields fields(object, kActionFields, name + ".");
    const JsonValue* id = fields.find("id");
    if (id == nullptr) {
      refuse_field(name + ".id", "expected a string");
    }
    string_view text;
    if (id->get(text) != simdjson::SUCCESS || !ids.insert(text).second) {
      refuse_field(name + ".id", "expected a string that no other action has");
    }
    check_id(text, "actions.id");
    request.actions.emplace_back(text);
    features.read_action(fields.find("features"), name + ".features", request.features);
  }
  if (request.actions.empty()) {
    refuse_field("actions", "expected at least one action");
  }
}

// The retired service ignored ids that no action has; `strict` refuses them.
void exclude_actions(const JsonValue& value, const std::string& field, bool strict,
                     RankRequest& request) {
  JsonArray excluded;
  if (value.get(excluded) != simdjson::SUCCESS) {
    refuse_field(field, "expected an array of strings");
  }
  std::unordered_map<string_view, std::size_t> indices;
  for (std::size_t i = 0; i < request.actions.size(); ++i) {
    indices.emplace(request.actions[i], i);
  }
  std::size_t count = 0;
  for (const JsonValue id : excluded) {
    if (++count > kMostActions) {
      refuse_field(field, fmt::format("expected at most {} ids", kMostActions));
    }
    const std::string text = read_text(id, field, kLongestId);
    if (const auto found = indices.find(text); found != indices.end()) {
      request.eligible[found->second] = false;
    } else if (strict) {
      refuse_field(field, fmt::format("\"{}\" is not among the actions", text));
    }
  }
  if (std::ranges::count(request.eligible, true) == 0) {
    refuse_field(field, "expected at least one action to be left");
  }
}

std::string json_of(const JsonValue& value) {
  return value.is_null() ? std::string() : simdjson::minify(value);
}

// The features as the caller wrote them.
CallerFeatures caller_features(const JsonFields& fields) {
  CallerFeatures kept;
  if (const JsonValue* const context = fields.find("contextFeatures")) {
    kept.context = json_of(*context);
  }
  for (const JsonValue action : JsonArray(*fields.find("actions"))) {
    JsonValue features;
    const bool has = action["features"].get(features) == simdjson::SUCCESS;
    kept.actions.push_back(has ? json_of(features) : std::string());
  }
  return kept;
}

// The action of the caller comes first: it is what is shown where the model only watches.
void put_first(const JsonValue& value, const std::string& field, bool strict,
               RankRequest& request) {
  const std::string id = read_text(value, field, kLongestId);
  const auto found = std::ranges::find(request.actions, id);
  if (found == request.actions.end()) {
    if (strict) {
      refuse_field(field, fmt::format("\"{}\" is not among the actions", id));
    }
    return;
  }
  const std::ptrdiff_t index = found - request.actions.begin();
  const auto dimension =
      static_cast<std::ptrdiff_t>(request.features.size() / request.actions.size());
  std::rotate(request.actions.begin(), found, found + 1);
  const auto eligible = request.eligible.begin();
  std::rotate(eligible, eligible + index, eligible + index + 1);
  const auto first = request.features.begin();
  std::rotate(first, first + index * dimension, first + (index + 1) * dimension);
  if (request.kept) {
    const auto kept = request.kept->actions.begin();
    std::rotate(kept, kept + index, kept + index + 1);
  }
}

// One slot of a request, of which `request` has everything else.
void read_slot(const JsonFields& slot, const std::string& name, const JsonFields& fields,
               bool strict, std::uint64_t dimension, FeatureReader& features,
               RankRequest& request) {
  if (const JsonValue* const given = slot.find("features")) {
    features.read_slot(given, name + ".features");
    request.actions.clear();
    request.features.clear();
    read_actions(*fields.find("actions"), dimension, features, request);
    if (request.kept) {
      request.kept->slot = json_of(*given);
    }
  }
  if (const JsonValue* const baseline = slot.find("baselineAction")) {
    put_first(*baseline, name + ".baselineAction", strict, request);
  }
  if (const JsonValue* const excluded = slot.find("excludedActions")) {
    exclude_actions(*excluded, name + ".excludedActions", strict, request);
  }
}

// Whatever the slots before this one take, one action is left for it.
void check_left(const RankRequest& request) {
  const auto left = static_cast<std::size_t>(std::ranges::count(request.eligible, true));
  if (left <= request.slot.index) {
    refuse_field(
        fmt::format("slots[{}]", request.slot.index),
        fmt::format("expected at least {} actions that are not excluded, because the slots "
                    "before it take {}, found {}",
                    request.slot.index + 1, request.slot.index, left));
  }
}

// The names of the slots: those of an array, or 1, 2 and so on.
std::vector<std::string> read_slot_ids(const JsonValue& value, const std::string& event_id) {
  std::vector<std::string> ids;
  std::uint64_t count = 0;
  JsonArray slots;
  if (value.get(count) == simdjson::SUCCESS) {
    for (std::uint64_t i = 1; i <= std::min<std::uint64_t>(count, kMostSlots + 1); ++i) {
      ids.push_back(std::to_string(i));
    }
  } else if (value.get(slots) == simdjson::SUCCESS) {
    for (const JsonValue slot : slots) {
      const std::string field = fmt::format("slots[{}].id", ids.size());
      string_view id;
      if (!slot.is_object() || slot["id"].get(id) != simdjson::SUCCESS ||
          std::ranges::count(ids, id) > 0) {
        refuse_field(field, "expected a string that no other slot has");
      }
      check_id(id, "slots.id");
      if (event_id.size() + 1 + id.size() > kLongestId) {
        refuse_field(
            field, fmt::format("expected at most {} bytes together with eventId", kLongestId - 1));
      }
      ids.emplace_back(id);
      if (ids.size() > kMostSlots) {
        break;
      }
    }
  }
  if (ids.empty() || ids.size() > kMostSlots) {
    refuse_field("slots",
                 fmt::format("expected 1 to {} slots, as an array or a number", kMostSlots));
  }
  return ids;
}

// `request` has everything but what differs from slot to slot.
std::vector<RankRequest> read_slots(const JsonValue& value, const JsonFields& fields, bool strict,
                                    const ModelOptions& model, FeatureReader& features,
                                    RankRequest request) {
  request.slot.ids = read_slot_ids(value, request.event_id);
  const std::size_t most = kMostNumbers / static_cast<std::size_t>(model.dimension);
  if (request.slot.ids.size() * request.actions.size() > most) {
    refuse_field("slots", fmt::format("expected at most {} actions of {} numbers each in all slots "
                                      "together",
                                      most, model.dimension));
  }
  JsonArray slots;
  const bool named = value.get(slots) == simdjson::SUCCESS;
  std::vector<RankRequest> requests;
  for (std::uint32_t i = 0; i < request.slot.ids.size(); ++i) {
    requests.push_back(request);
    RankRequest& own = requests.back();
    own.slot.index = i;
    own.event_id = slot_event_id(request.event_id, request.slot.ids[i], i == 0);
    if (named) {
      const std::string name = fmt::format("slots[{}]", i);
      JsonFields slot(JsonObject(slots.at(i)), kSlotFields, name + ".");
      if (!strict) {
        slot.drop_null("features");
        slot.drop_null("excludedActions");
        slot.drop_null("baselineAction");
      }
      read_slot(slot, name, fields, strict, model.dimension, features, own);
    }
    check_left(own);
  }
  return requests;
}

float read_reward_value(const JsonFields& fields, const std::string& name) {
  const JsonValue* const given = fields.find("value");
  double value = 0.0;
  if (given == nullptr || given->get(value) != simdjson::SUCCESS ||
      !(value >= 0.0 && value <= 1.0)) {
    refuse_field(name, "expected a number in [0, 1]");
  }
  return static_cast<float>(value);
}

}  // namespace

std::vector<RankRequest> read_ranks(string_view body, const ModelOptions& model, Dialect dialect,
                                    const std::string& assigned_id) {
  const JsonFields fields = rank_fields(body, dialect);
  RankRequest request;
  if (const JsonValue* id = fields.find("eventId")) {
    request.event_id = read_id(*id, "eventId");
  }
  if (const JsonValue* deferred = fields.find("deferActivation")) {
    request.deferred = read_flag(*deferred, "deferActivation");
  }
  if (const JsonValue* explain = fields.find("explain")) {
    request.explain = read_flag(*explain, "explain");
  }
  FeatureReader features(model);
  if (const JsonValue* context = fields.find("contextFeatures")) {
    features.read_context(*context);
  }
  request.user_id = read_user(fields, features.user(), dialect);
  const JsonValue* actions = fields.find("actions");
  if (actions == nullptr) {
    refuse_field("actions", "expected an array");
  }
  read_actions(*actions, model.dimension, features, request);
  request.eligible.assign(request.actions.size(), true);
  if (const JsonValue* excluded = fields.find("excludedActions");
      excluded != nullptr && !excluded->is_null()) {
    exclude_actions(*excluded, "excludedActions", dialect == Dialect::kOwn, request);
  }
  if (request.event_id.empty()) {
    request.event_id = assigned_id.empty() ? random_id() : assigned_id;
  }
  if (model.keep_features) {
    request.kept = caller_features(fields);
  }
  const JsonValue* const slots = fields.find("slots");
  if (slots != nullptr) {
    return read_slots(*slots, fields, dialect == Dialect::kOwn, model, features,
                      std::move(request));
  }
  if (dialect == Dialect::kPersonalizerSlots) {
    refuse_field("slots", "expected an array");
  }
  std::vector<RankRequest> one;
  one.push_back(std::move(request));
  return one;
}

RankRequest read_rank(string_view body, const ModelOptions& model, Dialect dialect) {
  std::vector<RankRequest> requests = read_ranks(body, model, dialect);
  if (!requests.front().slot.ids.empty()) {
    refuse_field("slots", "expected none here");
  }
  return std::move(requests.front());
}

SlotReward read_reward(string_view body, Dialect dialect, const std::string& assigned_id) {
  const JsonFields fields = dialect == Dialect::kOwn
                                ? JsonFields(parse_object(body), kRewardFields)
                                : JsonFields(parse_object(body), kPersonalizerRewardFields);
  SlotReward reward{.reward = {.value = read_reward_value(fields, "value")}, .slot = {}};
  if (const JsonValue* id = fields.find("rewardId")) {
    reward.reward.reward_id = read_id(*id, "rewardId");
  }
  if (const JsonValue* slot = fields.find("slot")) {
    reward.slot = read_id(*slot, "slot");
  }
  if (reward.reward.reward_id.empty()) {
    reward.reward.reward_id = assigned_id;
  }
  return reward;
}

std::vector<SlotReward> read_slot_rewards(string_view body, const std::string& assigned_id) {
  const JsonFields fields(parse_object(body), kSlotRewardsFields);
  const JsonValue* const given = fields.find("reward");
  JsonArray list;
  if (given == nullptr || given->get(list) != simdjson::SUCCESS || list.size() == 0 ||
      list.size() > kMostSlots) {
    refuse_field("reward", fmt::format("expected an array of 1 to {} rewards", kMostSlots));
  }
  std::vector<SlotReward> rewards;
  for (const JsonValue one : list) {
    const std::string name = fmt::format("reward[{}]", rewards.size());
    JsonObject object;
    if (one.get(object) != simdjson::SUCCESS) {
      refuse_field(name, "expected an object");
    }
    const JsonFields reward(object, kSlotRewardFields, name + ".");
    const JsonValue* const slot = reward.find("slotId");
    if (slot == nullptr) {
      refuse_field(name + ".slotId", "expected a string");
    }
    const float value = read_reward_value(reward, name + ".value");
    SlotReward& added = rewards.emplace_back();
    added.reward.reward_id = assigned_id;
    added.reward.value = value;
    added.slot = read_id(*slot, "slotId");
  }
  return rewards;
}

void read_nothing(string_view body) {
  if (body.find_first_not_of(" \t\r\n") != string_view::npos) {
    JsonFields(parse_object(body), {});
  }
}

}  // namespace mcnb
