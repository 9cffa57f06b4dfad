#pragma once

#include <simdjson.h>

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "mcnb/logs/features.h"
#include "mcnb/logs/logged_round.h"

namespace mcnb {

// Turns the JSON features of logged rounds into numbers, as the service does: tokens of the context
// and the slot, of the action, and of all pairs, hashed to a vector of unit length. Names that
// begin with an underscore are no features. An action without features is known by its id.
// Arrays of numbers of unit length are taken as they are, such as those the service stores.
class RoundFeatures {
 public:
  // `dimension`: of hashed features; arrays of numbers have their own. Without `skip_underscored`
  // names that begin with an underscore are features, too, as in requests of the service.
  explicit RoundFeatures(std::size_t dimension, bool skip_underscored = true)
      : hashed_dimension_(dimension), skip_underscored_(skip_underscored) {}

  // The numbers of all actions, dimension() for each; valid until the next call. Throws Error
  // (kInput) for arrays of different lengths, too many features and numbers that are not finite.
  std::span<const float> of(const LoggedRound& round);

  // Known after the first round.
  std::size_t dimension() const { return dimension_; }

 private:
  using Tokens = std::vector<Token>;

  simdjson::dom::element parse(const std::string& json, const char* field);
  const Tokens& tokens_of(const RoundAction& action);
  void add_vector(const simdjson::dom::element& numbers);
  void set_dimension(std::size_t dimension);
  void collect(const simdjson::dom::element& value, std::uint64_t path,
               std::vector<Token>& tokens) const;

  std::size_t hashed_dimension_;
  bool skip_underscored_;
  std::size_t dimension_ = 0;
  simdjson::dom::parser parser_;
  std::unordered_map<std::string, Tokens> known_;  // tokens of features that were met before
  Tokens context_;
  std::vector<double> vector_;
  std::vector<float> numbers_;
};

}  // namespace mcnb
