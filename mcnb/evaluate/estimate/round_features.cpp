#include "mcnb/evaluate/estimate/round_features.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/logs/json_features.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostKnown = 4096;        // features of actions that are remembered
constexpr double kUnitTolerance = 1e-4;         // of the squared length of numbers of unit length
constexpr std::size_t kMostDimension = 16'383;  // of a ridge regression with an intercept

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::kInput, message); }

}  // namespace

void RoundFeatures::collect(const simdjson::dom::element& value, std::uint64_t path,
                            std::vector<Token>& tokens) const {
  if (!JsonFeatures(0, skip_underscored_).collect(value, path, tokens)) {
    refuse(fmt::format("features: expected at most {}", kMostTokens));
  }
}

simdjson::dom::element RoundFeatures::parse(const std::string& json, const char* field) {
  simdjson::dom::element value;
  if (parser_.parse(json).get(value) != simdjson::SUCCESS) {
    refuse(fmt::format("{}: expected JSON, found {}", field, json));
  }
  return value;
}

void RoundFeatures::set_dimension(std::size_t dimension) {
  if (dimension_ == 0) {
    dimension_ = dimension;
  }
  if (dimension != dimension_ || dimension > kMostDimension) {
    refuse(fmt::format("features: expected {} numbers, as before, found {}",
                       std::min(dimension_, kMostDimension), dimension));
  }
}

const RoundFeatures::Tokens& RoundFeatures::tokens_of(const RoundAction& action) {
  const std::string& key = action.features.empty() ? action.id : action.features;
  if (known_.size() > kMostKnown) {
    known_.clear();
  }
  const auto [entry, is_new] = known_.try_emplace(key);
  if (is_new && action.features.empty()) {
    entry->second.push_back(text_token(path_below(kActionPath, "id"), action.id));
  } else if (is_new) {
    collect(parse(action.features, "features"), kActionPath, entry->second);
  }
  return entry->second;
}

void RoundFeatures::add_vector(const simdjson::dom::element& numbers) {
  const simdjson::dom::array array(numbers);
  set_dimension(array.size());
  vector_.assign(dimension_, 0.0);
  double squares = 0.0;
  std::size_t i = 0;
  for (const simdjson::dom::element element : array) {
    double number = 0.0;
    if (element.get(number) != simdjson::SUCCESS) {
      refuse("features: expected only numbers in the array");
    }
    squares += number * number;
    vector_[i++] = number;
  }
  if (context_.empty() && std::abs(squares - 1.0) < kUnitTolerance) {
    numbers_.insert(numbers_.end(), vector_.begin(), vector_.end());
    return;
  }
  add_tokens(context_, vector_);
  if (!append_unit(vector_, numbers_)) {
    refuse("features: expected numbers whose sums are finite");
  }
}

std::span<const float> RoundFeatures::of(const LoggedRound& round) {
  context_.clear();
  numbers_.clear();
  if (!round.context.empty()) {
    collect(parse(round.context, "context"), kContextPath, context_);
  }
  if (!round.slot_features.empty()) {
    collect(parse(round.slot_features, "slot"), kSlotPath, context_);
  }
  for (const RoundAction& action : round.actions) {
    if (action.features.starts_with('[')) {
      const simdjson::dom::element value = parse(action.features, "features");
      if (is_json_vector(value)) {
        add_vector(value);
        continue;
      }
    }
    const Tokens& tokens = tokens_of(action);
    if (context_.size() * tokens.size() > kMostTokens) {
      refuse(fmt::format("features: expected at most {} pairs with the context", kMostTokens));
    }
    set_dimension(hashed_dimension_);
    vector_.assign(dimension_, 0.0);
    add_tokens(tokens, vector_);
    add_tokens(context_, vector_);
    add_pairs(context_, tokens, vector_);
    if (!append_unit(vector_, numbers_)) {
      refuse("features: expected numbers whose sums and products are finite");
    }
  }
  return numbers_;
}

}  // namespace mcnb
