// The bytes of a connection. However they are cut into pieces, the same requests are found in them,
// and what is refused has a status and a message.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/check.h"
#include "mcnb/serve/http/request_parser.h"

namespace {

using namespace mcnb;

constexpr std::size_t kLargest = 64;  // of a body

// What is found in the bytes of a connection, one line for each request.
std::vector<std::string> requests_in(std::string_view bytes, std::size_t piece) {
  std::vector<std::string> found;
  RequestParser parser(kLargest);
  std::size_t used = 0;
  std::size_t come = 0;
  while (used < bytes.size()) {
    come = std::max(come, std::min(used + piece, bytes.size()));
    const std::size_t read = parser.read(bytes.substr(used, come - used));
    used += read;
    if (parser.state() == RequestParser::State::kRefused) {
      check(parser.refusal().status() >= 400 && !parser.refusal().message.empty(),
            "a refusal says why");
      found.push_back(parser.refusal().message);
      return found;
    }
    check(read > 0, "the parser goes on");
    if (parser.state() == RequestParser::State::kComplete) {
      const RequestHead& head = parser.head();
      check(is_http_token(head.method) && head.target.starts_with('/'), "the first line is sound");
      check(!(head.chunked && head.content_length), "the request has one end");
      std::string line = head.method + " " + head.target;
      for (const auto& [name, value] : head.headers) {
        check(is_http_token(name), "names are tokens");
        check(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos,
              "values are one line");
        line += "|" + name + ":" + value;
      }
      const std::string body = parser.take_body();
      check(body.size() <= kLargest, "bodies are limited");
      check(!head.content_length || body.size() == *head.content_length, "bodies are whole");
      found.push_back(line + "|" + body);
      parser = RequestParser(kLargest);
    }
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = requests_in(bytes, bytes.size());
  for (const std::size_t piece : {1, 5, 64}) {
    check(requests_in(bytes, piece) == whole, "pieces give the same requests");
  }
  return 0;
}
