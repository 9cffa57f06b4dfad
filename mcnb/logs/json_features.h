#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/logs/features.h"

namespace mcnb {

// The hash of the path of a member of the context, such as "user.id"; 0 for an empty path.
std::uint64_t context_path(const std::string& dotted);

bool is_json_number(const simdjson::dom::element& value);
// True for an array that begins with a number: its elements are the features themselves.
bool is_json_vector(const simdjson::dom::element& value);

// Turns JSON values into tokens: numbers into their value; texts and truth values into one token
// each; members of objects have paths of their own. The elements of an array form a set, except
// that the index of a number is part of its path.
class JsonFeatures {
 public:
  // The value at `user_path` is no feature, but the user's name. With `skip_underscored`, members
  // whose names begin with an underscore are no features, as in Vowpal Wabbit's logs.
  explicit JsonFeatures(std::uint64_t user_path = 0, bool skip_underscored = false)
      : user_path_(user_path), skip_underscored_(skip_underscored) {}

  // Appends the tokens of the value at this path. Returns false if there are more than kMostTokens;
  // some of them are then missing.
  [[nodiscard]] bool collect(const simdjson::dom::element& value, std::uint64_t path,
                             std::vector<Token>& tokens);

  // The value at `user_path`, if `collect` has met it.
  const std::optional<simdjson::dom::element>& user() const { return user_; }

 private:
  std::uint64_t user_path_;
  bool skip_underscored_;
  std::optional<simdjson::dom::element> user_;
};

}  // namespace mcnb
