#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace mcnb {

// The text as a JSON string, with its quotes.
void append_json_text(std::string& out, std::string_view text);

// Writes JSON front to back: commas come by themselves.
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
  // Shortest text that reads back the same; null for what is not finite.
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  template <class Integer>
  requires(std::is_integral_v<Integer> &&
           !std::is_same_v<Integer, bool>) JsonWriter& value(Integer number) {
    return raw(std::to_string(number));
  }
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
  bool first_ = true;  // nothing stands before in this object or array
};

}  // namespace mcnb
