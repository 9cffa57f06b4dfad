#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/serve/http/http_message.h"

namespace mcnb {

// Finds the responses of another node in the bytes of a connection, however they are cut into
// pieces. It knows what our own server sends: a length for every body, and no transfer encodings.
class ResponseParser {
 public:
  static constexpr std::size_t kMostHeadBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMostBodyBytes = std::size_t{256} << 20;

  void add(std::string_view bytes) { bytes_ += bytes; }
  // The next response, once all of it has come. Throws Error (kInput) for what no node sends; the
  // parser is then of no more use.
  std::optional<HttpResponse> take();
  // The last response that was taken said that the connection ends.
  bool is_last() const { return is_last_; }
  // Bytes that belong to no response yet.
  bool has_rest() const { return !bytes_.empty(); }

 private:
  void read_head(std::string_view head);
  void read_header(std::string_view line);

  std::string bytes_;
  std::size_t head_bytes_ = 0;  // 0: the head is not complete
  std::optional<std::size_t> body_bytes_;
  bool is_last_ = false;
  HttpResponse response_;
};

}  // namespace mcnb
