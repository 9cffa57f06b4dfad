#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// A field of the query of a path, decoded.
struct QueryField {
  std::string name;
  std::string value;
};

// The fields of "a=1&b=x%20y", in their order. Throws RequestRefused (kBadPath) for malformed
// escapes, (kBadField) for a field that comes twice.
std::vector<QueryField> query_fields(std::string_view query);

// Decodes the %-escapes of a part of a path. Throws RequestRefused (kBadPath) for malformed ones.
std::string unescaped(std::string_view text);

}  // namespace mcnb
