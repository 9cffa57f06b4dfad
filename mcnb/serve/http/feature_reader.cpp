#include "mcnb/serve/http/feature_reader.h"

#include <fmt/core.h>

#include <algorithm>

namespace mcnb {

FeatureReader::FeatureReader(const ModelOptions& model)
    : model_(model),
      user_path_(context_path(model.user_path)),
      vector_(static_cast<std::size_t>(model.dimension)) {}

void FeatureReader::read_context(const JsonValue& value) {
  collect(value, kContextPath, "contextFeatures", context_);
  context_size_ = context_.size();
}

void FeatureReader::read_slot(const JsonValue* value, const std::string& field) {
  context_.resize(context_size_);
  if (value != nullptr) {
    collect(*value, kSlotPath, field, context_);
  }
}

void FeatureReader::read_action(const JsonValue* value, const std::string& field,
                                std::vector<float>& out) {
  std::ranges::fill(vector_, 0.0);
  count_tokens(context_.size() + 1, field);
  if (value != nullptr && is_json_vector(*value)) {
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
  JsonFeatures features(user_path_);
  if (!features.collect(value, path, tokens)) {
    refuse_field(field, fmt::format("expected at most {} features", kMostTokens));
  }
  if (features.user()) {
    user_ = read_option_text(*features.user(), field);
  }
}

}  // namespace mcnb
