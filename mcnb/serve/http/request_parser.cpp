#include "mcnb/serve/http/request_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "mcnb/serve/http/http_message.h"

namespace mcnb {
namespace {

constexpr std::size_t kLongestMethod = 32;
constexpr std::size_t kLongestChunkLine = 256;
constexpr std::size_t kMostTrailerBytes = 8 * 1024;
constexpr std::size_t kReserved = 64 * 1024;  // bytes that are reserved on the client's word

bool is_letter_or_digit(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

bool is_token_character(char c) {
  return is_letter_or_digit(c) ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

bool is_control(char c) { return (c >= 0 && c < ' ') || c == 0x7f; }

// Bytes above 127 are allowed, as RFC 9110 does.
bool is_text(std::string_view value) {
  return std::ranges::none_of(value, [](char c) { return is_control(c) && c != '\t'; });
}

bool is_host_character(char c) {
  return is_letter_or_digit(c) ||
         (c != '\0' && std::string_view("-._~%!$&'()*+,;=").find(c) != std::string_view::npos);
}

// A name or an address, with or without a port: "localhost:8080", "[::1]".
bool is_host(std::string_view host) {
  if (const std::size_t colon = host.rfind(':');
      colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    if (!std::ranges::all_of(host.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; })) {
      return false;
    }
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    return !host.empty() && std::ranges::all_of(host, [](char c) {
      return is_letter_or_digit(c) || c == ':' || c == '.' || c == '%';
    });
  }
  return !host.empty() && std::ranges::all_of(host, is_host_character);
}

bool is_framing(std::string_view name) {
  return name == "content-length" || name == "transfer-encoding" || name == "host";
}

// Headers of which programs on a request's way could take different ones if there were two.
bool is_single(std::string_view name) {
  constexpr std::array kSingle{"authorization", "content-type", "ocp-apim-subscription-key",
                               "origin", "x-api-key"};
  return std::ranges::find(kSingle, name) != kSingle.end();
}

// The name of a header line, in lower case; empty if it is not a token that a colon follows.
std::string name_in(std::string_view line) {
  const std::size_t colon = line.find(':');
  const bool sound = colon != std::string_view::npos && is_http_token(line.substr(0, colon));
  return sound ? lower_case(line.substr(0, colon)) : "";
}

}  // namespace

bool is_http_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_character);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return lower;
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::vector<std::string_view> list_elements(std::string_view text) {
  std::vector<std::string_view> elements;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (const std::string_view element = without_blanks(text.substr(0, comma)); !element.empty()) {
      elements.push_back(element);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return elements;
}

std::string_view RequestHead::header(std::string_view lower_case_name) const {
  const auto found = std::ranges::find(
      headers, lower_case_name, [](const auto& header) -> const auto& { return header.first; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

bool RequestHead::has(std::string_view lower_case_name) const {
  return std::ranges::any_of(headers,
                             [&](const auto& header) { return header.first == lower_case_name; });
}

void RequestParser::refuse(std::string message) {
  refuse_request(ErrorCode::kBadRequest, std::move(message));
}

std::size_t RequestParser::read(std::string_view bytes) {
  std::size_t used = 0;
  const State before = state_;
  try {
    while (used < bytes.size() && state_ == before && state_ != State::kComplete &&
           state_ != State::kRefused) {
      const std::string_view rest = bytes.substr(used);
      const bool raw = part_ == Part::kBody || part_ == Part::kChunk;
      used += raw ? read_bytes(rest) : read_line(rest);
    }
  } catch (const RequestRefused& refused) {
    refusal_ = refused.error();
    state_ = State::kRefused;
  }
  return used;
}

std::size_t RequestParser::line_limit() const {
  switch (part_) {
    case Part::kChunkSize:
    case Part::kChunkEnd:
      return kLongestChunkLine;
    case Part::kTrailer:
      return kMostTrailerBytes;
    default:
      return kMostHeadBytes;
  }
}

std::size_t RequestParser::read_line(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  const std::size_t used = end == std::string_view::npos ? bytes.size() : end + 1;
  section_bytes_ += used;
  if (section_bytes_ > line_limit()) {
    if (state_ == State::kHead) {
      refuse_request(ErrorCode::kHeadersTooLarge,
                     fmt::format("expected at most {} bytes of headers", kMostHeadBytes));
    }
    refuse("expected shorter lines of chunks and trailers");
  }
  begun_ = true;
  if (end == std::string_view::npos) {
    line_ += bytes;
    return used;
  }
  std::string_view line = bytes.substr(0, used);
  std::string whole;
  if (!line_.empty()) {
    whole = std::exchange(line_, {}) + std::string(line);
    line = whole;
  }
  if (!line.ends_with("\r\n")) {
    refuse("expected every line to end with CR and LF");
  }
  line.remove_suffix(2);
  if (!is_text(line)) {
    refuse("expected no control characters in the request");
  }
  on_line(line);
  return used;
}

void RequestParser::on_line(std::string_view line) {
  switch (part_) {
    case Part::kRequestLine:
      // One empty line before a request is allowed: some clients send it after a body.
      if (!line.empty() || section_bytes_ > 2) {
        on_request_line(line);
      } else {
        begun_ = false;
      }
      return;
    case Part::kHeader:
      line.empty() ? on_head_end() : on_header(line);
      return;
    case Part::kChunkSize:
      on_chunk_size(line);
      return;
    case Part::kChunkEnd:
      if (!line.empty()) {
        refuse("expected CR and LF after the bytes of a chunk");
      }
      section_bytes_ = 0;
      part_ = Part::kChunkSize;
      return;
    default:
      on_trailer(line);
  }
}

// METHOD SP TARGET SP VERSION
void RequestParser::on_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    refuse("expected a method, a path and a version in the first line");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_http_token(method) || method.size() > kLongestMethod) {
    refuse("expected a method such as GET at the beginning of the first line");
  }
  if (!target.starts_with('/') || target.find_first_of(" \t#") != std::string_view::npos) {
    refuse("expected a path that begins with / and has no blanks");
  }
  const bool named = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.' &&
                     version[5] >= '0' && version[5] <= '9' && version[7] >= '0' &&
                     version[7] <= '9';
  if (!named) {
    refuse("expected HTTP/1.1 at the end of the first line");
  }
  head_.is_http_1_0 = version == "HTTP/1.0";
  if (!head_.is_http_1_0 && version != "HTTP/1.1") {
    refuse_request(ErrorCode::kBadVersion, "expected HTTP/1.1 or HTTP/1.0");
  }
  head_.method = method;
  head_.target = target;
  head_.keep_alive = !head_.is_http_1_0;
  part_ = Part::kHeader;
}

void RequestParser::on_header(std::string_view line) {
  std::string name = name_in(line);
  if (name.empty()) {
    refuse(line.front() == ' ' || line.front() == '\t'
               ? "expected no folded headers"
               : "expected headers of the form NAME: VALUE, without a blank before the colon");
  }
  if (head_.headers.size() >= kMostHeaders) {
    refuse_request(ErrorCode::kHeadersTooLarge,
                   fmt::format("expected at most {} headers", kMostHeaders));
  }
  const std::string_view value = without_blanks(line.substr(name.size() + 1));
  on_framing(name, value);
  if (is_single(name) && head_.has(name)) {
    refuse(fmt::format("expected one header {}", name));
  }
  head_.headers.emplace_back(std::move(name), value);
}

// The headers that decide where the request ends, and what becomes of the connection.
void RequestParser::on_framing(std::string_view name, std::string_view value) {
  if (name == "content-length") {
    on_content_length(value);
  } else if (name == "transfer-encoding") {
    if (head_.chunked || lower_case(value) != "chunked") {
      refuse("expected no transfer coding but one \"chunked\"");
    }
    head_.chunked = true;
  } else if (name == "host") {
    if (++hosts_ > 1 || !is_host(value)) {
      refuse("expected one header Host with a name or an address");
    }
  } else if (name == "connection") {
    for (const std::string_view option : list_elements(value)) {
      const std::string lower = lower_case(option);
      if (lower == "close") {
        head_.keep_alive = false;
      } else if (lower == "keep-alive" && head_.is_http_1_0) {
        head_.keep_alive = true;
      }
    }
  } else if (name == "expect") {
    if (lower_case(value) != "100-continue") {
      refuse("expected no expectation but 100-continue");
    }
    head_.expects_continue = !head_.is_http_1_0;
  }
}

void RequestParser::on_content_length(std::string_view value) {
  if (head_.content_length) {
    refuse("expected one header Content-Length");
  }
  if (value.empty() || value.find_first_not_of("0123456789") != std::string_view::npos) {
    refuse("expected only digits in the header Content-Length");
  }
  std::uint64_t length = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), length);
  head_.content_length = read.ec == std::errc() ? length : UINT64_MAX;
}

void RequestParser::on_head_end() {
  if (head_.chunked && head_.content_length) {
    refuse("expected either Content-Length or Transfer-Encoding");
  }
  if (head_.chunked && head_.is_http_1_0) {
    refuse("expected no Transfer-Encoding in HTTP/1.0");
  }
  if (hosts_ == 0 && !head_.is_http_1_0) {
    refuse("expected the header Host");
  }
  section_bytes_ = 0;
  if (head_.method == "POST" && head_.target == kUploadPath) {
    largest_body_ = largest_upload_;
  }
  if (head_.content_length.value_or(0) > largest_body_) {
    refuse_request(ErrorCode::kTooLarge,
                   fmt::format("expected a body of at most {} bytes", largest_body_));
  }
  if (!head_.has_body()) {
    state_ = State::kComplete;
    return;
  }
  bytes_left_ = head_.content_length.value_or(0);
  body_.reserve(std::min<std::size_t>(bytes_left_, kReserved));
  part_ = head_.chunked ? Part::kChunkSize : Part::kBody;
  state_ = State::kBody;
}

std::size_t RequestParser::read_bytes(std::string_view bytes) {
  const std::size_t used = std::min<std::uint64_t>(bytes.size(), bytes_left_);
  body_ += bytes.substr(0, used);
  bytes_left_ -= used;
  if (bytes_left_ == 0) {
    if (part_ == Part::kBody) {
      state_ = State::kComplete;
    } else {
      part_ = Part::kChunkEnd;
    }
  }
  return used;
}

// HEXDIGITS [;EXTENSIONS], which are ignored.
void RequestParser::on_chunk_size(std::string_view line) {
  const std::string_view digits = line.substr(0, std::min(line.find(';'), line.size()));
  std::uint64_t size = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  const bool too_long = read.ec == std::errc::result_out_of_range;
  if (digits.empty() || digits.front() == '-' || read.ptr != digits.data() + digits.size()) {
    refuse("expected the size of a chunk as a hexadecimal number");
  }
  section_bytes_ = 0;
  if (too_long || size > largest_body_ - body_.size()) {
    refuse_request(ErrorCode::kTooLarge,
                   fmt::format("expected a body of at most {} bytes", largest_body_));
  }
  bytes_left_ = size;
  part_ = size == 0 ? Part::kTrailer : Part::kChunk;
}

void RequestParser::on_trailer(std::string_view line) {
  if (line.empty()) {
    state_ = State::kComplete;
    return;
  }
  const std::string name = name_in(line);
  if (name.empty() || is_framing(name)) {
    refuse("expected trailers of the form NAME: VALUE, none of which frames the request");
  }
}

}  // namespace mcnb
