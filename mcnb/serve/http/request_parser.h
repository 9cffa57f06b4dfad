#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

inline constexpr std::size_t kMostHeadBytes = 32 * 1024;  // of the request line and all headers
inline constexpr std::size_t kMostHeaders = 100;

// The request line and the headers of a request.
struct RequestHead {
  std::string method;
  std::string target;  // begins with '/'; escaped, with its query
  bool is_http_1_0 = false;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;  // whether the connection may serve another request
  bool expects_continue = false;

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
  // The value of the only header of this name. Empty if there is none. Of several, the first.
  std::string_view header(std::string_view lower_case_name) const;
  bool has(std::string_view lower_case_name) const;
};

// Reads one request of HTTP/1.1 or HTTP/1.0 from the bytes of a connection, in pieces of any size.
// It refuses every request whose end two programs could find in different places (request
// smuggling), also where RFC 9112 lets a server be lenient: line ends other than CRLF, folded
// headers, blanks around names, control characters, several Content-Length or Transfer-Encoding
// headers, both of them, other transfer codings than "chunked", and malformed chunks. It refuses
// HTTP/1.1 without exactly one Host, too. After a refusal the connection must be closed.
class RequestParser {
 public:
  enum class State : std::uint8_t { kHead, kBody, kComplete, kRefused };

  // Bodies of more than `largest_body` bytes are refused, as soon as that is known; those sent to
  // kUploadPath may have `largest_upload`.
  explicit RequestParser(std::size_t largest_body, std::size_t largest_upload = 0)
      : largest_body_(largest_body), largest_upload_(std::max(largest_body, largest_upload)) {}

  // Reads bytes and returns how many it used: at least one, unless the request is complete or
  // refused. It stops after the head, so that the caller can judge it before the body is read, at
  // the end of the request, and where the request is refused.
  std::size_t read(std::string_view bytes);

  State state() const { return state_; }
  // True once a byte of the request was read.
  bool has_begun() const { return begun_; }
  // Requires that the state is not kHead.
  const RequestHead& head() const { return head_; }
  std::size_t body_bytes() const { return body_.size(); }  // so far
  // Requires kComplete.
  std::string take_body() { return std::move(body_); }
  // Requires kRefused.
  const ServiceError& refusal() const { return refusal_; }

 private:
  enum class Part : std::uint8_t {
    kRequestLine,
    kHeader,
    kBody,
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailer
  };

  std::size_t read_line(std::string_view bytes);
  std::size_t read_bytes(std::string_view bytes);
  void on_line(std::string_view line);
  void on_request_line(std::string_view line);
  void on_header(std::string_view line);
  void on_framing(std::string_view name, std::string_view value);
  void on_content_length(std::string_view value);
  void on_head_end();
  void on_chunk_size(std::string_view line);
  void on_trailer(std::string_view line);
  std::size_t line_limit() const;
  [[noreturn]] static void refuse(std::string message);

  std::size_t largest_body_;
  std::size_t largest_upload_;
  State state_ = State::kHead;
  Part part_ = Part::kRequestLine;
  bool begun_ = false;
  std::string line_;               // the beginning of a line whose end has not come yet
  std::size_t section_bytes_ = 0;  // of the head, of a chunk's line or of the trailer, so far
  std::size_t hosts_ = 0;
  std::uint64_t bytes_left_ = 0;  // of the body, or of the current chunk
  RequestHead head_;
  std::string body_;
  ServiceError refusal_;
};

// Whether the text is a token of RFC 9110: a name of a method or of a header.
bool is_http_token(std::string_view text);
std::string lower_case(std::string_view text);
// Without blanks and tabs at both ends.
std::string_view without_blanks(std::string_view text);
// The elements of a list such as "a, b", without the blanks around them.
std::vector<std::string_view> list_elements(std::string_view text);

}  // namespace mcnb
