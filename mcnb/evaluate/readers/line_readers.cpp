#include "mcnb/evaluate/readers/line_readers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "mcnb/data/formats/text_reader.h"

namespace mcnb::json {

static_assert(TextReader::kPadding >= simdjson::SIMDJSON_PADDING);

std::optional<Element> find(const Object& object, const char* name) {
  Element value;
  if (object.at_key(name).get(value) != simdjson::SUCCESS || value.is_null()) {
    return std::nullopt;
  }
  return value;
}

Element need(const Object& object, const char* name) {
  const std::optional<Element> value = find(object, name);
  if (!value) {
    throw RowError{fmt::format("expected a member \"{}\", found none", name)};
  }
  return *value;
}

namespace {

template <class Value>
Value value_of(const Element& value, const char* name, const char* expected) {
  Value found;
  if (value.get(found) != simdjson::SUCCESS) {
    refuse_field(name, expected, simdjson::minify(value));
  }
  return found;
}

}  // namespace

Object object_of(const Element& value, const char* name) {
  return value_of<Object>(value, name, "an object");
}

Array array_of(const Element& value, const char* name) {
  return value_of<Array>(value, name, "an array");
}

double number_of(const Element& value, const char* name) {
  const auto number = value_of<double>(value, name, "a number");
  if (!std::isfinite(number)) {
    refuse_field(name, "a finite number", simdjson::minify(value));
  }
  return number;
}

std::uint32_t index_of(const Element& value, const char* name) {
  const auto number = value_of<std::uint64_t>(value, name, "a whole number, not negative");
  constexpr std::uint64_t kLargest = 1'000'000;
  if (number > kLargest) {
    refuse_number(name, simdjson::minify(value), 0, static_cast<double>(kLargest));
  }
  return static_cast<std::uint32_t>(number);
}

std::string text_of(const Element& value, const char* name) {
  return std::string(value_of<std::string_view>(value, name, "a text"));
}

bool flag_of(const Element& value, const char* name) {
  return value_of<bool>(value, name, "true or false");
}

std::string without(const Object& object, std::initializer_list<std::string_view> leave_out) {
  std::string text;
  for (const auto member : object) {
    if (std::ranges::find(leave_out, member.key) != leave_out.end()) {
      continue;
    }
    text += text.empty() ? "{" : ",";
    text += simdjson::minify(member);
  }
  return text.empty() ? text : text + "}";
}

Object parse_line(simdjson::dom::parser& parser, std::string_view line) {
  Element document;
  const simdjson::error_code problem = parser.parse(line.data(), line.size(), false).get(document);
  if (problem != simdjson::SUCCESS) {
    throw RowError{fmt::format("expected a JSON object: {}", simdjson::error_message(problem))};
  }
  return object_of(document, "line");
}

}  // namespace mcnb::json
