// Bodies of requests about models.

#include <fmt/core.h>

#include <array>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/json_reader.h"
#include "mcnb/serve/http/request_json.h"

namespace mcnb {
namespace {

using std::string_view;

constexpr std::array kBackupFields{string_view("name")};
constexpr std::array kPromotionFields{string_view("challenger"), string_view("keepAs")};

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
    } else if (field == "from" && !member.value.is_string()) {
      refuse_field("from", "expected the name of a model or of an upload");
    } else {
      values[field] = read_option_text(member.value, field);
    }
  }
  return values;
}

}  // namespace

ModelRequest read_model(string_view body) {
  ModelRequest request;
  OptionValues values = read_model_options(parse_object(body), request.name);
  if (const auto from = values.extract("from"); !from.empty()) {
    request.from = from.mapped();
    if (request.from.empty()) {
      refuse_field("from", "expected the name of a model or of an upload");
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
      refuse_request(ErrorCode::kBadOption, error.what(), name);
    }
  }
  if (!request.from.empty()) {
    request.given = std::move(values);
    return request;
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

NewChallenger read_challenger(string_view body) {
  NewChallenger wanted;
  const OptionValues values = read_model_options(parse_object(body), wanted.name);
  if (!is_model_name(wanted.name)) {
    refuse_field("name",
                 fmt::format("expected 1 to {} letters, digits, '.', '_' or '-'", kLongestName));
  }
  for (const auto& [name, text] : values) {
    try {
      set_option(wanted.options, name, text);
    } catch (const Error& error) {
      refuse_request(ErrorCode::kBadOption, error.what(), name);
    }
  }
  try {
    check_challenger_options(wanted.options);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kBadOption, error.what());
  }
  return wanted;
}

PromotionRequest read_promotion(string_view body) {
  const JsonFields fields(parse_object(body), kPromotionFields);
  const auto text = [&](const char* name) {
    const JsonValue* value = fields.find(name);
    return value == nullptr ? std::string() : read_text(*value, name, kLongestName);
  };
  PromotionRequest request{.challenger = text("challenger"), .keep_as = text("keepAs")};
  if (request.challenger.empty()) {
    refuse_field("challenger", "expected the name of a challenger");
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
