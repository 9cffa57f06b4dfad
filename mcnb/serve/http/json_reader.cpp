#include "mcnb/serve/http/json_reader.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "mcnb/base/check.h"
#include "mcnb/base/options.h"
#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/identifiers.h"
#include "mcnb/serve/model/model_options.h"

namespace mcnb {
namespace {

using simdjson::dom::element_type;

simdjson::dom::parser& parser_of_this_thread() {
  thread_local simdjson::dom::parser parser(kLargestBody);
  thread_local const bool ready = parser.allocate(kLargestBody, kDeepest) == simdjson::SUCCESS;
  static_cast<void>(ready);
  return parser;
}

// A name that occurs twice among the members of an object; nullopt if there is none. Sorts, since
// clients can choose names that a hash table takes long for. `names` is scratch memory.
std::optional<std::string_view> repeated_name(const JsonObject& object,
                                              std::vector<std::string_view>& names) {
  names.clear();
  for (const auto member : object) {
    names.push_back(member.key);
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::adjacent_find(names);
  return repeated == names.end() ? std::nullopt : std::optional(*repeated);
}

// Programs disagree about which of two members of one name counts, so there must be only one.
// `path` is where the value is: "actions[3].features".
void refuse_repeated_names(const JsonValue& value, std::string& path,
                           std::vector<std::string_view>& names) {
  const std::size_t length = path.size();
  if (value.type() == element_type::OBJECT) {
    const JsonObject object(value);
    if (const auto name = repeated_name(object, names)) {
      path += (path.empty() ? "" : ".") + std::string(*name);
      refuse_field(path, "the key occurs twice in its object");
    }
    for (const auto member : object) {
      if (member.value.is_object() || member.value.is_array()) {
        path += (path.empty() ? "" : ".") + std::string(member.key);
        refuse_repeated_names(member.value, path, names);
        path.resize(length);
      }
    }
  } else if (value.type() == element_type::ARRAY) {
    std::size_t index = 0;
    for (const JsonValue element : JsonArray(value)) {
      if (element.is_object() || element.is_array()) {
        path += fmt::format("[{}]", index);
        refuse_repeated_names(element, path, names);
        path.resize(length);
      }
      ++index;
    }
  }
}

}  // namespace

JsonObject parse_object(std::string_view body) {
  if (body.empty()) {
    refuse_request(ErrorCode::kBadJson, "expected JSON in the body: it is empty");
  }
  JsonValue root;
  const auto code = parser_of_this_thread().parse(body.data(), body.size()).get(root);
  if (code == simdjson::DEPTH_ERROR) {
    refuse_request(ErrorCode::kTooDeep,
                   fmt::format("expected at most {} levels of nesting", kDeepest));
  }
  if (code != simdjson::SUCCESS) {
    refuse_request(ErrorCode::kBadJson,
                   fmt::format("expected JSON in the body: {}", simdjson::error_message(code)));
  }
  JsonObject object;
  if (root.get(object) != simdjson::SUCCESS) {
    refuse_request(ErrorCode::kBadJson, "expected an object in the body");
  }
  std::string path;
  std::vector<std::string_view> names;
  refuse_repeated_names(root, path, names);
  return object;
}

JsonFields::JsonFields(const JsonObject& object, std::span<const std::string_view> known,
                       const std::string& prefix)
    : known_(known) {
  check(known.size() <= kMost, "JsonFields has room for every known field");
  for (const auto member : object) {
    const std::size_t index = index_of(member.key);
    if (index == known_.size()) {
      const std::string name = prefix + std::string(member.key);
      refuse_request(
          ErrorCode::kUnknownField,
          fmt::format("unknown field \"{}\": expected {}", name,
                      known.empty() ? "no fields" : fmt::format("{}", fmt::join(known, ", "))),
          name);
    }
    values_[index] = member.value;
  }
}

std::size_t JsonFields::index_of(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::find(known_, name) - known_.begin());
}

const JsonValue* JsonFields::find(std::string_view name) const {
  const std::size_t index = index_of(name);
  return index < known_.size() && values_[index] ? &*values_[index] : nullptr;
}

void JsonFields::drop_null(std::string_view name) {
  if (const JsonValue* value = find(name); value != nullptr && value->is_null()) {
    values_[index_of(name)].reset();
  }
}

std::string read_text(const JsonValue& value, const std::string& field, std::size_t limit) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    refuse_field(field, "expected a string");
  }
  if (text.size() > limit) {
    refuse_field(field, fmt::format("expected at most {} bytes", limit));
  }
  return std::string(text);
}

std::string read_id(const JsonValue& value, const char* field) {
  std::string id = read_text(value, field, kLongestId);
  check_id(id, field);
  return id;
}

bool read_flag(const JsonValue& value, const std::string& field) {
  bool yes = false;
  if (value.get(yes) != simdjson::SUCCESS) {
    refuse_field(field, "expected true or false");
  }
  return yes;
}

std::string read_option_text(const JsonValue& value, const std::string& field) {
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

void refuse_field(const std::string& field, const std::string& message) {
  refuse_request(ErrorCode::kBadField, fmt::format("{}: {}", field, message), field);
}

}  // namespace mcnb
