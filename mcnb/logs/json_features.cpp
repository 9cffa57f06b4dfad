#include "mcnb/logs/json_features.h"

#include <algorithm>
#include <string_view>

namespace mcnb {

using simdjson::dom::element_type;

std::uint64_t context_path(const std::string& dotted) {
  if (dotted.empty()) {
    return 0;
  }
  std::uint64_t hash = kContextPath;
  std::size_t begin = 0;
  while (begin <= dotted.size()) {
    const std::size_t end = std::min(dotted.find('.', begin), dotted.size());
    hash = path_below(hash, std::string_view(dotted).substr(begin, end - begin));
    begin = end + 1;
  }
  return hash;
}

bool is_json_number(const simdjson::dom::element& value) {
  return value.is<double>() || value.is<std::int64_t>() || value.is<std::uint64_t>();
}

bool is_json_vector(const simdjson::dom::element& value) {
  simdjson::dom::array array;
  return value.get(array) == simdjson::SUCCESS && array.begin() != array.end() &&
         is_json_number(*array.begin());
}

bool JsonFeatures::collect(const simdjson::dom::element& value, std::uint64_t path,
                           std::vector<Token>& tokens) {
  if (tokens.size() > kMostTokens) {
    return false;
  }
  const element_type type = value.type();
  if (path == user_path_ && type != element_type::OBJECT && type != element_type::ARRAY) {
    user_ = value;
    return true;
  }
  switch (type) {
    case element_type::OBJECT:
      for (const auto member : simdjson::dom::object(value)) {
        if (!(skip_underscored_ && member.key.starts_with('_')) &&
            !collect(member.value, path_below(path, member.key), tokens)) {
          return false;
        }
      }
      return true;
    case element_type::ARRAY: {
      std::size_t index = 0;
      for (const simdjson::dom::element element : simdjson::dom::array(value)) {
        const bool numbered = is_json_number(element);
        if (!collect(element, numbered ? path_below(path, std::to_string(index)) : path, tokens)) {
          return false;
        }
        ++index;
      }
      return true;
    }
    case element_type::STRING:
      tokens.push_back(text_token(path, std::string_view(value)));
      return true;
    case element_type::BOOL:
      tokens.push_back(text_token(path, bool(value) ? "true" : "false"));
      return true;
    case element_type::NULL_VALUE:
      return true;
    default:
      break;
  }
  double number = 0.0;
  if (value.get(number) == simdjson::SUCCESS) {
    tokens.push_back({path, number});
  }
  return true;
}

}  // namespace mcnb
