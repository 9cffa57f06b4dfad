#include "mcnb/serve/http/feature_reader.h"

#include <fmt/core.h>

#include <algorithm>

namespace mcnb {
namespace {

using simdjson::dom::element_type;

bool is_number(const JsonValue& value) {
  return value.is<double>() || value.is<std::int64_t>() || value.is<std::uint64_t>();
}

// True for an array that begins with a number: its elements are the features themselves.
bool is_vector(const JsonValue& value) {
  JsonArray array;
  return value.get(array) == simdjson::SUCCESS && array.begin() != array.end() &&
         is_number(*array.begin());
}

// The hash that `collect` computes for a dotted path such as "user.id"; 0 for an empty path.
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

}  // namespace

FeatureReader::FeatureReader(const ModelOptions& model)
    : model_(model),
      user_path_(hash_of_path(model.user_path)),
      vector_(static_cast<std::size_t>(model.dimension)) {}

void FeatureReader::read_context(const JsonValue& value) {
  collect(value, kContextPath, "contextFeatures", context_);
}

void FeatureReader::read_action(const JsonValue* value, const std::string& field,
                                std::vector<float>& out) {
  std::ranges::fill(vector_, 0.0);
  count_tokens(context_.size() + 1, field);
  if (value != nullptr && is_vector(*value)) {
    read_vector(JsonArray(*value), field);
    add_tokens(context_, vector_);
  } else {
    hash_action(value, field);
  }
  if (!append_unit(vector_, out)) {
    refuse_field(field, "expected numbers whose sums and products are finite");
  }
}

// Limits the hashing of one request, because all requests share the server's thread.
void FeatureReader::count_tokens(std::size_t tokens, const std::string& field) {
  tokens_ += tokens;
  if (tokens_ > kMostTokensOfRequest) {
    refuse_field(field, fmt::format("expected at most {} features of all actions together, with "
                                    "those of the context and pairs counted for each",
                                    kMostTokensOfRequest));
  }
}

void FeatureReader::read_vector(const JsonArray& numbers, const std::string& field) {
  std::size_t index = 0;
  for (const JsonValue number : numbers) {
    double x = 0.0;
    if (number.get(x) != simdjson::SUCCESS) {
      refuse_field(field, fmt::format("expected only numbers, element {} is none", index));
    }
    if (index < vector_.size()) {
      vector_[index] = x;
    }
    ++index;
  }
  if (index != vector_.size()) {
    refuse_field(field, fmt::format("expected {} numbers, got {}", vector_.size(), index));
  }
}

void FeatureReader::hash_action(const JsonValue* value, const std::string& field) {
  action_.clear();
  if (value != nullptr) {
    collect(*value, kActionPath, field, action_);
  }
  if (model_.interactions && context_.size() * action_.size() > kMostTokens) {
    refuse_field(field, fmt::format("expected at most {} pairs of context and action features",
                                    kMostTokens));
  }
  count_tokens(action_.size() * (model_.interactions ? context_.size() + 1 : 1), field);
  add_tokens(action_, vector_);
  add_tokens(context_, vector_);
  if (model_.interactions) {
    add_pairs(context_, action_, vector_);
  }
}

void FeatureReader::collect(const JsonValue& value, std::uint64_t path, const std::string& field,
                            std::vector<Token>& tokens) {
  if (tokens.size() > kMostTokens) {
    refuse_field(field, fmt::format("expected at most {} features", kMostTokens));
  }
  const element_type type = value.type();
  if (path == user_path_ && type != element_type::OBJECT && type != element_type::ARRAY) {
    user_ = read_option_text(value, field);
    return;
  }
  switch (type) {
    case element_type::OBJECT:
      for (const auto member : JsonObject(value)) {
        collect(member.value, path_below(path, member.key), field, tokens);
      }
      break;
    case element_type::ARRAY:
      collect_array(JsonArray(value), path, field, tokens);
      break;
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

// The index of a number in an array is part of its path; all other elements form a set.
void FeatureReader::collect_array(const JsonArray& values, std::uint64_t path,
                                  const std::string& field, std::vector<Token>& tokens) {
  std::size_t index = 0;
  for (const JsonValue value : values) {
    collect(value, is_number(value) ? path_below(path, std::to_string(index)) : path, field,
            tokens);
    ++index;
  }
}

}  // namespace mcnb
