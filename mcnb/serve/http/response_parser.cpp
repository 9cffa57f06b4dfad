#include "mcnb/serve/http/response_parser.h"

#include <fmt/core.h>

#include <charconv>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/request_parser.h"

namespace mcnb {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kResponseHeadEnd = "\r\n\r\n";
constexpr std::string_view kVersion = "HTTP/1.1 ";
constexpr int kNoContent = 204;  // has neither a body nor a length

[[noreturn]] void refuse_response(const std::string& why) {
  throw Error(ErrorKind::kInput, "response of a node: " + why);
}

// Digits alone, at most `most`.
std::size_t count_in(std::string_view text, std::size_t most, const char* what) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || count > most) {
    refuse_response(fmt::format("expected {} from 0 to {}", what, most));
  }
  return count;
}

// The types that endpoints which are forwarded can have.
const char* content_type_of(std::string_view text) {
  for (const char* type : {"application/json", "text/plain; version=0.0.4"}) {
    if (text == type) {
      return type;
    }
  }
  return "application/octet-stream";
}

}  // namespace

std::optional<HttpResponse> ResponseParser::take() {
  if (head_bytes_ == 0) {
    const std::size_t end = bytes_.find(kResponseHeadEnd);
    const std::size_t least =
        end == std::string::npos ? bytes_.size() - kResponseHeadEnd.size() : end;
    if (bytes_.size() > kResponseHeadEnd.size() && least >= kMostHeadBytes) {
      refuse_response(fmt::format("expected a head of at most {} bytes", kMostHeadBytes));
    }
    if (end == std::string::npos) {
      return std::nullopt;
    }
    head_bytes_ = end + kResponseHeadEnd.size();
    read_head(std::string_view(bytes_).substr(0, end));
  }
  if (bytes_.size() - head_bytes_ < *body_bytes_) {
    return std::nullopt;
  }
  response_.body = bytes_.substr(head_bytes_, *body_bytes_);
  bytes_.erase(0, head_bytes_ + *body_bytes_);
  head_bytes_ = 0;
  return std::exchange(response_, {});
}

void ResponseParser::read_head(std::string_view head) {
  body_bytes_ = std::nullopt;
  is_last_ = false;
  const std::string_view first = head.substr(0, head.find(kLineEnd));
  const std::size_t status_end = kVersion.size() + 3;
  if (!first.starts_with(kVersion) || first.size() < status_end ||
      (first.size() > status_end && first[status_end] != ' ')) {
    refuse_response("expected a status line of HTTP/1.1");
  }
  response_.status = static_cast<int>(count_in(first.substr(kVersion.size(), 3), 599, "a status"));
  if (response_.status < 200) {
    refuse_response("expected a status from 200 on");
  }
  head.remove_prefix(first.size());
  while (!head.empty()) {
    head.remove_prefix(kLineEnd.size());
    const std::string_view line = head.substr(0, head.find(kLineEnd));
    read_header(line);
    head.remove_prefix(line.size());
  }
  if (response_.status == kNoContent) {
    body_bytes_ = body_bytes_.value_or(0);
  }
  if (!body_bytes_ || (response_.status == kNoContent && *body_bytes_ > 0)) {
    refuse_response("expected the header Content-Length");
  }
}

void ResponseParser::read_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    refuse_response("expected a colon in every header");
  }
  // What comes from here goes into the head of another response.
  if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
    refuse_response("expected headers of one line");
  }
  const std::string name = lower_case(line.substr(0, colon));
  const std::string_view value = without_blanks(line.substr(colon + 1));
  if (name == "content-length") {
    if (body_bytes_) {
      refuse_response("expected one header Content-Length");
    }
    body_bytes_ = count_in(value, kMostBodyBytes, "a Content-Length");
  } else if (name == "content-type") {
    response_.content_type = content_type_of(value);
  } else if (name == "retry-after") {
    response_.retry_after = static_cast<int>(count_in(value, 86'400, "a Retry-After"));
  } else if (name == "allow") {
    response_.allow = value;
  } else if (name == "connection") {
    is_last_ = is_last_ || lower_case(value) == "close";
  } else if (name == "transfer-encoding") {
    refuse_response("expected a length, found a Transfer-Encoding");
  }
}

}  // namespace mcnb
