#include "mcnb/serve/http/protocol.h"

#include <fmt/core.h>
#include <simdjson.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/features.h"

namespace mcnb {
namespace {

namespace json = simdjson::dom;
using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::size_t kLargestBody = std::size_t{1} << 20;
constexpr const char* kEverybody = "everybody";  // the one user of requests that name none

[[noreturn]] void refuse_field(const std::string& field, const std::string& message) {
  refuse_request(400, "bad_field", fmt::format("{}: {}", field, message), field);
}

json::parser& own_parser() {
  thread_local json::parser parser(kLargestBody);
  thread_local const bool ready = parser.allocate(kLargestBody, kDeepest) == simdjson::SUCCESS;
  static_cast<void>(ready);
  return parser;
}

json::object parse_object(std::string_view body) {
  if (body.empty()) {
    refuse_request(400, "bad_json", "expected JSON in the body: it is empty");
  }
  element root;
  const auto code = own_parser().parse(body.data(), body.size()).get(root);
  if (code == simdjson::DEPTH_ERROR) {
    refuse_request(400, "too_deep", fmt::format("expected at most {} levels of nesting", kDeepest));
  }
  if (code != simdjson::SUCCESS) {
    refuse_request(400, "bad_json",
                   fmt::format("expected JSON in the body: {}", simdjson::error_message(code)));
  }
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    refuse_request(400, "bad_json", "expected an object in the body");
  }
  return object;
}

[[noreturn]] void refuse_unknown(std::string_view field, const char* known) {
  refuse_request(400, "unknown_field",
                 fmt::format("unknown field \"{}\": expected {}", field, known),
                 std::string(field));
}

std::string read_text(const element& value, const std::string& field, std::size_t limit) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    refuse_field(field, "expected a string");
  }
  if (text.size() > limit) {
    refuse_field(field, fmt::format("expected at most {} bytes", limit));
  }
  return std::string(text);
}

std::string read_id(const element& value, const char* field) {
  std::string id = read_text(value, field, kLongestId);
  check_id(id, field);
  return id;
}

bool read_flag(const element& value, const std::string& field) {
  bool yes = false;
  if (value.get(yes) != simdjson::SUCCESS) {
    refuse_field(field, "expected true or false");
  }
  return yes;
}

// A value as option tables read it.
std::string read_plain(const element& value, const std::string& field) {
  switch (value.type()) {
    case element_type::STRING:
      return read_text(value, field, kLongestId);
    case element_type::INT64:
      return std::to_string(std::int64_t(value));
    case element_type::UINT64:
      return std::to_string(std::uint64_t(value));
    case element_type::DOUBLE:
      return number_text(double(value));
    case element_type::BOOL:
      return bool(value) ? "yes" : "no";
    default:
      refuse_field(field, "expected a string, a number, true or false");
  }
}

// What one request's features are made of.
class FeatureReader {
 public:
  FeatureReader(const ModelOptions& model, std::uint64_t user_path)
      : model_(model), user_path_(user_path), vector_(static_cast<std::size_t>(model.dimension)) {}

  void read_context(const element& value) {
    collect(value, kContextPath, "contextFeatures", context_);
  }
  // The text at the model's user path, where the context has one.
  const std::optional<std::string>& user() const { return user_; }

  void read_action(const element* value, const std::string& field, std::vector<float>& out) {
    std::ranges::fill(vector_, 0.0);
    action_.clear();
    spend(context_.size() + 1, field);
    if (value != nullptr && is_vector(*value)) {
      read_vector(*value, field);
      add_tokens(context_, vector_);
    } else {
      if (value != nullptr) {
        collect(*value, kActionPath, field, action_);
      }
      if (model_.interactions && context_.size() * action_.size() > kMostTokens) {
        refuse_field(field, fmt::format("expected at most {} pairs of context and action features",
                                        kMostTokens));
      }
      spend(action_.size() * (model_.interactions ? context_.size() + 1 : 1), field);
      add_tokens(action_, vector_);
      add_tokens(context_, vector_);
      if (model_.interactions) {
        add_pairs(context_, action_, vector_);
      }
    }
    if (!append_unit(vector_, out)) {
      refuse_field(field, "expected numbers whose sums and products are finite");
    }
  }

 private:
  // Hashing takes its time, and all requests share one thread for it.
  void spend(std::size_t tokens, const std::string& field) {
    spent_ += tokens;
    if (spent_ > kMostTokensOfRequest) {
      refuse_field(field, fmt::format("expected at most {} features of all actions together, with "
                                      "those of the context and pairs counted for each",
                                      kMostTokensOfRequest));
    }
  }

  static bool is_number(const element& value) {
    return value.is<double>() || value.is<std::int64_t>() || value.is<std::uint64_t>();
  }

  static bool is_vector(const element& value) {
    json::array array;
    return value.get(array) == simdjson::SUCCESS && array.begin() != array.end() &&
           is_number(*array.begin());
  }

  void read_vector(const element& value, const std::string& field) {
    std::size_t place = 0;
    for (const element number : json::array(value)) {
      double x = 0.0;
      if (number.get(x) != simdjson::SUCCESS) {
        refuse_field(field, fmt::format("expected numbers only, place {} is none", place));
      }
      if (place < vector_.size()) {
        vector_[place] = x;
      }
      ++place;
    }
    if (place != vector_.size()) {
      refuse_field(field, fmt::format("expected {} numbers, got {}", vector_.size(), place));
    }
  }

  void collect(const element& value, std::uint64_t path, const std::string& field,
               std::vector<Token>& tokens) {
    if (tokens.size() > kMostTokens) {
      refuse_field(field, fmt::format("expected at most {} features", kMostTokens));
    }
    if (path == user_path_ && value.type() != element_type::OBJECT &&
        value.type() != element_type::ARRAY) {
      user_ = read_plain(value, field);
      return;
    }
    switch (value.type()) {
      case element_type::OBJECT:
        for (const auto member : json::object(value)) {
          collect(member.value, path_below(path, member.key), field, tokens);
        }
        break;
      case element_type::ARRAY: {
        std::size_t place = 0;
        for (const element member : json::array(value)) {
          // Numbers have their places; a list of others is a set.
          const std::string name = is_number(member) ? std::to_string(place) : "";
          collect(member, name.empty() ? path : path_below(path, name), field, tokens);
          ++place;
        }
        break;
      }
      case element_type::STRING:
        tokens.push_back(text_token(path, std::string_view(value)));
        break;
      case element_type::BOOL:
        tokens.push_back(text_token(path, bool(value) ? "true" : "false"));
        break;
      case element_type::NULL_VALUE:
        break;
      default: {
        double number = 0.0;
        if (value.get(number) == simdjson::SUCCESS) {
          tokens.push_back({path, number});
        }
      }
    }
  }

  const ModelOptions& model_;
  std::uint64_t user_path_;
  std::vector<double> vector_;
  std::vector<Token> context_;
  std::vector<Token> action_;
  std::size_t spent_ = 0;
  std::optional<std::string> user_;
};

// The hash that the walk has at a dotted path; 0 for none.
std::uint64_t hash_of_path(const std::string& path) {
  if (path.empty()) {
    return 0;
  }
  std::uint64_t hash = kContextPath;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    hash = path_below(hash, std::string_view(path).substr(begin, end - begin));
    begin = end + 1;
  }
  return hash;
}

void read_actions(const element& value, std::uint64_t dimension, FeatureReader& features,
                  RankRequest& request) {
  const std::size_t most =
      std::min(kMostActions, kMostNumbers / static_cast<std::size_t>(dimension));
  json::array actions;
  if (value.get(actions) != simdjson::SUCCESS) {
    refuse_field("actions", "expected an array");
  }
  std::unordered_set<std::string_view> ids;
  for (const element action : actions) {
    const std::size_t place = request.actions.size();
    const std::string field = fmt::format("actions[{}]", place);
    json::object object;
    if (action.get(object) != simdjson::SUCCESS) {
      refuse_field(field, "expected an object");
    }
    if (place >= most) {
      refuse_field("actions",
                   fmt::format("expected at most {} actions of {} numbers each", most, dimension));
    }
    std::optional<element> id;
    std::optional<element> described;
    for (const auto member : object) {
      if (member.key == "id") {
        id = member.value;
      } else if (member.key == "features") {
        described = member.value;
      } else {
        refuse_unknown(fmt::format("{}.{}", field, member.key), "id, features");
      }
    }
    if (!id) {
      refuse_field(field + ".id", "expected a string");
    }
    std::string_view text;
    if (id->get(text) != simdjson::SUCCESS || !ids.insert(text).second) {
      refuse_field(field + ".id", "expected a string that no other action has");
    }
    check_id(text, "actions.id");
    request.actions.emplace_back(text);
    features.read_action(described ? &*described : nullptr, field + ".features", request.features);
  }
  if (request.actions.empty()) {
    refuse_field("actions", "expected at least one action");
  }
}

// Clients of the retired service write null for what they leave out.
bool may_be_null(std::string_view field) {
  constexpr std::array<std::string_view, 4> kOptional{"eventId", "contextFeatures",
                                                      "excludedActions", "deferActivation"};
  return std::ranges::count(kOptional, field) > 0;
}

// The retired service took no notice of ids that no action has.
void exclude_actions(const element& value, bool strict, RankRequest& request) {
  json::array excluded;
  if (value.get(excluded) != simdjson::SUCCESS) {
    refuse_field("excludedActions", "expected an array of strings");
  }
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < request.actions.size(); ++i) {
    places.emplace(request.actions[i], i);
  }
  std::size_t count = 0;
  for (const element id : excluded) {
    if (++count > kMostActions) {
      refuse_field("excludedActions", fmt::format("expected at most {} ids", kMostActions));
    }
    const std::string text = read_text(id, "excludedActions", kLongestId);
    if (const auto found = places.find(text); found != places.end()) {
      request.eligible[found->second] = false;
    } else if (strict) {
      refuse_field("excludedActions", fmt::format("\"{}\" is not among the actions", text));
    }
  }
  if (std::ranges::count(request.eligible, true) == 0) {
    refuse_field("excludedActions", "expected at least one action to be left");
  }
}

}  // namespace

void check_id(std::string_view id, const char* field) {
  if (id.empty() || id.size() > kLongestId) {
    refuse_field(field, fmt::format("expected 1 to {} bytes", kLongestId));
  }
  if (!simdjson::validate_utf8(id)) {
    refuse_field(field, "expected UTF-8");
  }
}

RankRequest read_rank(std::string_view body, const ModelOptions& model, Dialect dialect) {
  const bool own = dialect == Dialect::kOwn;
  const json::object object = parse_object(body);
  std::optional<element> actions;
  std::optional<element> context;
  std::optional<element> excluded;
  RankRequest request;
  for (const auto member : object) {
    if (!own && member.value.is_null() && may_be_null(member.key)) {
      continue;
    }
    if (member.key == "eventId") {
      request.event_id = read_id(member.value, "eventId");
    } else if (own && member.key == "userId") {
      request.user_id = read_id(member.value, "userId");
    } else if (member.key == "actions") {
      actions = member.value;
    } else if (member.key == "contextFeatures") {
      context = member.value;
    } else if (member.key == "excludedActions") {
      excluded = member.value;
    } else if (member.key == "deferActivation") {
      request.deferred = read_flag(member.value, "deferActivation");
    } else if (own && member.key == "explain") {
      request.explain = read_flag(member.value, "explain");
    } else {
      refuse_unknown(member.key, own ? "eventId, userId, actions, contextFeatures, "
                                       "excludedActions, deferActivation, explain"
                                     : "eventId, actions, contextFeatures, excludedActions, "
                                       "deferActivation");
    }
  }
  FeatureReader features(model, hash_of_path(model.user_path));
  if (context && !context->is_null()) {
    features.read_context(*context);
  }
  if (request.user_id.empty()) {
    if (features.user()) {
      request.user_id = *features.user();
      check_id(request.user_id, "contextFeatures");
    } else if (own) {
      refuse_field("userId", "expected a string");
    } else {
      request.user_id = kEverybody;
    }
  }
  if (!actions) {
    refuse_field("actions", "expected an array");
  }
  read_actions(*actions, model.dimension, features, request);
  request.eligible.assign(request.actions.size(), true);
  if (excluded && !excluded->is_null()) {
    exclude_actions(*excluded, own, request);
  }
  if (request.event_id.empty()) {
    request.event_id = new_event_id();
  }
  return request;
}

Reward read_reward(std::string_view body, Dialect dialect) {
  const bool own = dialect == Dialect::kOwn;
  Reward reward;
  bool given = false;
  for (const auto member : parse_object(body)) {
    if (member.key == "value") {
      double value = 0.0;
      if (member.value.get(value) != simdjson::SUCCESS || !(value >= 0.0 && value <= 1.0)) {
        refuse_field("value", "expected a number in [0, 1]");
      }
      reward.value = static_cast<float>(value);
      given = true;
    } else if (own && member.key == "rewardId") {
      reward.reward_id = read_id(member.value, "rewardId");
    } else {
      refuse_unknown(member.key, own ? "value, rewardId" : "value");
    }
  }
  if (!given) {
    refuse_field("value", "expected a number in [0, 1]");
  }
  return reward;
}

void read_nothing(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return;
  }
  for (const auto member : parse_object(body)) {
    refuse_unknown(member.key, "no fields");
  }
}

ModelRequest read_model(std::string_view body) {
  ModelRequest request;
  OptionValues values;
  for (const auto member : parse_object(body)) {
    const std::string name(member.key);
    if (name == "name") {
      request.name = read_text(member.value, "name", kLongestName);
    } else if (name == "options") {
      json::object options;
      if (member.value.get(options) != simdjson::SUCCESS) {
        refuse_field("options", "expected an object");
      }
      for (const auto option : options) {
        const std::string full = "options." + std::string(option.key);
        values[full] = read_plain(option.value, full);
      }
    } else {
      values[name] = read_plain(member.value, name);
    }
  }
  if (!is_model_name(request.name)) {
    refuse_field("name",
                 fmt::format("expected 1 to {} letters, digits, '.', '_' or '-'", kLongestName));
  }
  for (const auto& [name, text] : values) {
    try {
      set_option(request.options, name, text);
    } catch (const Error& error) {
      refuse_request(400, "bad_option", error.what(), name);
    }
  }
  try {
    check_model_options(request.options);
  } catch (const Error& error) {
    refuse_request(400, "bad_option", error.what());
  }
  return request;
}

OptionValues read_settings(std::string_view body) {
  OptionValues values;
  for (const auto member : parse_object(body)) {
    const std::string name(member.key);
    values[name] = read_plain(member.value, name);
  }
  return values;
}

std::string new_event_id() {
  unsigned char bytes[16];
  std::size_t filled = 0;
  while (filled < sizeof bytes) {
    const ssize_t got = ::getrandom(bytes + filled, sizeof bytes - filled, 0);
    filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace mcnb
