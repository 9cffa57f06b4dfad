#include "mcnb/serve/http/identifiers.h"

#include <fmt/core.h>
#include <simdjson.h>
#include <sys/random.h>

#include <algorithm>

#include "mcnb/serve/http/json_reader.h"
#include "mcnb/serve/model/model_options.h"

namespace mcnb {

void check_id(std::string_view id, const char* field) {
  if (id.empty() || id.size() > kLongestId) {
    refuse_field(field, fmt::format("expected 1 to {} bytes", kLongestId));
  }
  if (!simdjson::validate_utf8(id)) {
    refuse_field(field, "expected UTF-8");
  }
}

std::string random_id() {
  unsigned char bytes[16];
  std::size_t filled = 0;
  while (filled < sizeof bytes) {
    const ssize_t got = ::getrandom(bytes + filled, sizeof bytes - filled, 0);
    filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

}  // namespace mcnb
