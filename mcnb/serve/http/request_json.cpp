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

namespace mcnb {
namespace {

using std::string_view;

constexpr const char* kEverybody = "everybody";  // the user of Personalizer requests without one

constexpr std::array kRankFields{string_view("eventId"),         string_view("userId"),
                                 string_view("actions"),         string_view("contextFeatures"),
                                 string_view("excludedActions"), string_view("deferActivation"),
                                 string_view("explain")};
constexpr std::array kPersonalizerRankFields{
    string_view("eventId"), string_view("actions"), string_view("contextFeatures"),
    string_view("excludedActions"), string_view("deferActivation")};
// Clients of the retired service write null for the fields that they leave out.
constexpr std::array kNullableFields{string_view("eventId"), string_view("contextFeatures"),
                                     string_view("excludedActions"),
                                     string_view("deferActivation")};
constexpr std::array kActionFields{string_view("id"), string_view("features")};
constexpr std::array kRewardFields{string_view("value"), string_view("rewardId")};
constexpr std::array kPersonalizerRewardFields{string_view("value")};
constexpr std::array kBackupFields{string_view("name")};

JsonFields rank_fields(string_view body, Dialect dialect) {
  const JsonObject object = parse_object(body);
  if (dialect == Dialect::kOwn) {
    return {object, kRankFields};
  }
  JsonFields fields(object, kPersonalizerRankFields);
  for (const string_view name : kNullableFields) {
    fields.drop_null(name);
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

// The features of a context or an action as the log keeps them. A list of objects becomes a member.
std::string original_text(const JsonValue* value, const char* member) {
  if (value == nullptr || value->is_null()) {
    return {};
  }
  const bool is_list = value->is_array() && !is_json_vector(*value);
  const std::string text = simdjson::minify(*value);
  return is_list ? fmt::format("{{\"{}\":{}}}", member, text) : text;
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
    if (request.original) {
      request.original->actions.push_back(original_text(fields.find("features"), "j"));
    }
  }
  if (request.actions.empty()) {
    refuse_field("actions", "expected at least one action");
  }
}

// The retired service ignored ids that no action has; `strict` refuses them.
void exclude_actions(const JsonValue& value, bool strict, RankRequest& request) {
  JsonArray excluded;
  if (value.get(excluded) != simdjson::SUCCESS) {
    refuse_field("excludedActions", "expected an array of strings");
  }
  std::unordered_map<string_view, std::size_t> indices;
  for (std::size_t i = 0; i < request.actions.size(); ++i) {
    indices.emplace(request.actions[i], i);
  }
  std::size_t count = 0;
  for (const JsonValue id : excluded) {
    if (++count > kMostActions) {
      refuse_field("excludedActions", fmt::format("expected at most {} ids", kMostActions));
    }
    const std::string text = read_text(id, "excludedActions", kLongestId);
    if (const auto found = indices.find(text); found != indices.end()) {
      request.eligible[found->second] = false;
    } else if (strict) {
      refuse_field("excludedActions", fmt::format("\"{}\" is not among the actions", text));
    }
  }
  if (std::ranges::count(request.eligible, true) == 0) {
    refuse_field("excludedActions", "expected at least one action to be left");
  }
}

// The options of a new model: the members of the body, and those of "options" as "options.NAME".
OptionValues read_model_options(const JsonObject& body, std::string& name) {
  OptionValues values;
  for (const auto member : body) {
    const std::string field(member.key);
    if (field == "name") {
      name = read_text(member.value, "name", kLongestName);
    } else if (field == "options") {
      JsonObject options;
      if (member.value.get(options) != simdjson::SUCCESS) {
        refuse_field("options", "expected an object");
      }
      for (const auto option : options) {
        const std::string full = "options." + std::string(option.key);
        values[full] = read_option_text(option.value, full);
      }
    } else {
      values[field] = read_option_text(member.value, field);
    }
  }
  return values;
}

}  // namespace

RankRequest read_rank(string_view body, const ModelOptions& model, Dialect dialect) {
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
  if (model.keep_features) {
    request.original.emplace().context = original_text(fields.find("contextFeatures"), "FromUrl");
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
    exclude_actions(*excluded, dialect == Dialect::kOwn, request);
  }
  if (request.event_id.empty()) {
    request.event_id = random_id();
  }
  return request;
}

Reward read_reward(string_view body, Dialect dialect) {
  const JsonFields fields = dialect == Dialect::kOwn
                                ? JsonFields(parse_object(body), kRewardFields)
                                : JsonFields(parse_object(body), kPersonalizerRewardFields);
  Reward reward;
  const JsonValue* given = fields.find("value");
  double value = 0.0;
  if (given == nullptr || given->get(value) != simdjson::SUCCESS ||
      !(value >= 0.0 && value <= 1.0)) {
    refuse_field("value", "expected a number in [0, 1]");
  }
  reward.value = static_cast<float>(value);
  if (const JsonValue* id = fields.find("rewardId")) {
    reward.reward_id = read_id(*id, "rewardId");
  }
  return reward;
}

void read_nothing(string_view body) {
  if (body.find_first_not_of(" \t\r\n") != string_view::npos) {
    JsonFields(parse_object(body), {});
  }
}

ModelRequest read_model(string_view body) {
  ModelRequest request;
  const OptionValues values = read_model_options(parse_object(body), request.name);
  if (!is_model_name(request.name)) {
    refuse_field("name",
                 fmt::format("expected 1 to {} letters, digits, '.', '_' or '-'", kLongestName));
  }
  for (const auto& [name, text] : values) {
    try {
      set_option(request.options, name, text);
    } catch (const Error& error) {
      refuse_request(ErrorCode::kBadOption, error.what(), name);
    }
  }
  if (!values.contains("policy")) {
    set_default_policy(request.options);
  }
  try {
    check_model_options(request.options);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kBadOption, error.what());
  }
  return request;
}

OptionValues read_settings(string_view body) {
  OptionValues values;
  for (const auto member : parse_object(body)) {
    const std::string name(member.key);
    values[name] = read_option_text(member.value, name);
  }
  return values;
}

std::string read_backup_name(string_view body) {
  const JsonFields fields(parse_object(body), kBackupFields);
  const JsonValue* name = fields.find("name");
  const std::string text = name == nullptr ? "" : read_option_text(*name, "name");
  if (!is_model_name(text)) {
    refuse_field("name", "expected letters, digits, '.', '_' or '-'");
  }
  return text;
}

}  // namespace mcnb
