#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace mcnb {

// Appends the text as a JSON string, with quotes and escapes.
void append_json_text(std::string& out, std::string_view text);

// Writes JSON from front to back and puts the commas. Unlike nlohmann-json it writes a float by its
// shortest text (0.9, not 0.8999999761581421), and builds no tree.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool yes) { return raw(yes ? "true" : "false"); }
  // The shortest text that reads back as the same number; null for infinities and NaN.
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  template <class Integer>
  requires(std::is_integral_v<Integer> &&
           !std::is_same_v<Integer, bool>) JsonWriter& value(Integer number) {
    return raw(std::to_string(number));
  }
  // Writes a value, or the members of an object, that is JSON already.
  JsonWriter& raw(std::string_view json);

  template <class Value>
  JsonWriter& field(std::string_view name, const Value& given) {
    return key(name).value(given);
  }

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string out_;
  bool first_ = true;  // the next value is the first of its object or array, or follows its key
};

}  // namespace mcnb
