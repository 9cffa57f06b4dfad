#include "mcnb/serve/http/query.h"

#include <algorithm>

#include "mcnb/serve/engine/service_error.h"

namespace mcnb {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      refuse_request(ErrorCode::kBadPath, "expected two hexadecimal digits after % in the path");
    }
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

std::vector<QueryField> query_fields(std::string_view query) {
  std::vector<QueryField> fields;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    if (field.empty()) {
      continue;
    }
    const std::size_t equals = std::min(field.find('='), field.size());
    std::string name = unescaped(field.substr(0, equals));
    if (std::ranges::count(fields, name, &QueryField::name) > 0) {
      refuse_request(ErrorCode::kBadField, "expected once", name);
    }
    fields.push_back({std::move(name),
                      equals == field.size() ? "" : unescaped(field.substr(equals + 1))});
  }
  return fields;
}

}  // namespace mcnb
