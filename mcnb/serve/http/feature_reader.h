#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/logs/json_features.h"
#include "mcnb/serve/http/json_reader.h"
#include "mcnb/serve/model/model_options.h"

namespace mcnb {

// Turns the JSON features of one rank request into numbers: `dimension` of the model for each
// action, of unit length. Every function throws RequestRefused naming the field.
class FeatureReader {
 public:
  // Borrows the options.
  explicit FeatureReader(const ModelOptions& model);

  // Call it at most once, before `read_action`.
  void read_context(const JsonValue& value);
  // Call it after `read_context`, before the actions of each slot. Its features are like those of
  // the context, but of other names; nullptr: it has none.
  void read_slot(const JsonValue* value, const std::string& field);
  // The user's name, if the context has a value at `user_path` of the model.
  const std::optional<std::string>& user() const { return user_; }

  // Appends the numbers of one action to `out`. `value` is nullptr for an action without features.
  void read_action(const JsonValue* value, const std::string& field, std::vector<float>& out);

 private:
  void count_tokens(std::size_t tokens, const std::string& field);
  void read_vector(const JsonArray& numbers, const std::string& field);
  void hash_action(const JsonValue* value, const std::string& field);
  void collect(const JsonValue& value, std::uint64_t path, const std::string& field,
               std::vector<Token>& tokens);

  const ModelOptions& model_;
  std::uint64_t user_path_;       // hash of the model's user path; 0 if it has none
  std::vector<double> vector_;    // the current action, before it is scaled to unit length
  std::vector<Token> context_;    // and of the present slot
  std::size_t context_size_ = 0;  // without the slot
  std::vector<Token> action_;
  std::size_t tokens_ = 0;  // of the whole request so far
  std::optional<std::string> user_;
};

}  // namespace mcnb
