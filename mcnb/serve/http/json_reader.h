#pragma once

#include <simdjson.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

// Reads values of JSON bodies. Every function throws RequestRefused (status 400) that names the
// field, if the value is missing, has the wrong type or is out of range.

inline constexpr std::size_t kDeepest = 32;  // levels of nesting in a body

using JsonValue = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

// The object in a body, in which no object has two members of one name. It is valid until the same
// thread parses the next body.
JsonObject parse_object(std::string_view body);

// The members of an object that may have only certain members.
class JsonFields {
 public:
  static constexpr std::size_t kMost = 8;

  // `known` must outlive this object. `prefix` precedes the names in error messages: "actions[0].".
  JsonFields(const JsonObject& object, std::span<const std::string_view> known,
             const std::string& prefix = "");

  // nullptr if the object has no such member.
  const JsonValue* find(std::string_view name) const;
  // Treats the member as absent if its value is null.
  void drop_null(std::string_view name);

 private:
  std::size_t index_of(std::string_view name) const;

  std::span<const std::string_view> known_;
  std::array<std::optional<JsonValue>, kMost> values_;
};

std::string read_text(const JsonValue& value, const std::string& field, std::size_t limit);
std::string read_id(const JsonValue& value, const char* field);
bool read_flag(const JsonValue& value, const std::string& field);
// A string, number or truth value, as the text that option tables read.
std::string read_option_text(const JsonValue& value, const std::string& field);

[[noreturn]] void refuse_field(const std::string& field, const std::string& message);

}  // namespace mcnb
