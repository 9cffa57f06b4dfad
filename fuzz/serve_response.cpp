// What another node sends on a connection. However the bytes are cut into pieces, the same
// responses are found in them; what no node sends is refused with a reason.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/http/response_parser.h"

namespace {

using namespace mcnb;

// What is found in the bytes of a connection, one line for each response.
std::vector<std::string> responses_in(std::string_view bytes, std::size_t piece) {
  std::vector<std::string> found;
  ResponseParser parser;
  std::size_t bodies = 0;
  try {
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      parser.add(bytes.substr(at, piece));
      while (const std::optional<HttpResponse> response = parser.take()) {
        check(response->status >= 200 && response->status <= 599, "a status is one of a response");
        check(response->retry_after >= 0, "nobody is to try again before now");
        check(response->allow.find_first_of("\r\n") == std::string::npos, "values are one line");
        bodies += response->body.size();
        check(bodies < bytes.size(), "bodies are bytes that came");
        found.push_back(std::to_string(response->status) + "|" + response->content_type + "|" +
                        response->allow + "|" + std::to_string(response->retry_after) + "|" +
                        std::to_string(static_cast<int>(parser.is_last())) + "|" + response->body);
      }
    }
    found.emplace_back(parser.has_rest() ? "more is to come" : "the end");
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kInput && *error.what() != '\0', "a refusal says why");
    found.emplace_back(error.what());
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = responses_in(bytes, std::max<std::size_t>(size, 1));
  for (const std::size_t piece : {1, 5, 64}) {
    check(responses_in(bytes, piece) == whole, "pieces give the same responses");
  }
  return 0;
}
