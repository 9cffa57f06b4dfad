#include "mcnb/data/formats/text_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Blocks grow from the first size to the largest, so that small texts stay cheap. A block is cut
// into pieces small enough for the caches and for threads to share evenly.
constexpr std::size_t kFirstBlock = std::size_t{1} << 16;
constexpr std::size_t kLargestBlock = std::size_t{1} << 24;
constexpr std::size_t kPiece = std::size_t{1} << 20;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

void TextPart::skip(std::string_view kind) {
  const auto known =
      std::ranges::find_if(skips, [&](const Skip& other) { return other.kind == kind; });
  if (known == skips.end()) {
    skips.push_back({kind, lines, 1});
  } else {
    ++known->count;
  }
}

void TextPart::reset() {
  lines = 0;
  fault.reset();
  skips.clear();
}

TextReader::TextReader(const Input& input, ThreadPool& threads)
    : name_(input.name()), threads_(threads), bytes_(input.open()), block_size_(kFirstBlock) {
  fill(present_, {});
  text_ = present_.text();
  if (text_.empty()) {
    throw Error(ErrorKind::kInput, name_ + ": expected lines of text, found an empty file");
  }
  if (text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff")) {
    throw Error(ErrorKind::kInput, name_ + ": expected text in UTF-8, found UTF-16");
  }
  if (text_.starts_with(kByteOrderMark)) {
    text_.remove_prefix(kByteOrderMark.size());
  }
}

std::optional<std::string_view> TextReader::peek_line() {
  for (;;) {
    while (!text_.empty()) {
      std::string_view rest = text_;
      const std::string_view line = take_line(rest);
      if (!trimmed(line).empty()) {
        return line;
      }
      text_ = rest;
      ++lines_;
    }
    read_ahead();
    take_next_block();
    if (text_.empty()) {
      return std::nullopt;
    }
  }
}

std::string_view TextReader::need_line() {
  const auto line = peek_line();
  if (!line) {
    throw Error(ErrorKind::kInput, name_ + ": expected rows, found blank lines only");
  }
  return *line;
}

void TextReader::skip_line() {
  if (peek_line()) {
    take_line(text_);
    ++lines_;
  }
  if (text_.empty()) {
    read_ahead();
    take_next_block();
  }
}

double TextReader::expected_growth() const {
  constexpr double kMargin = 1.05;
  constexpr double kUnknown = 2.0;
  // The stream has read beyond the present block: the next one too.
  const auto read = static_cast<double>(bytes_read_);
  const double ahead =
      static_cast<double>(next_.size) - static_cast<double>(present_.rest().size());
  const double parsed = read - ahead;
  const double progress = bytes_->progress() * parsed / read;
  return progress > 0.0 ? kMargin / progress : kUnknown;
}

void TextReader::refuse_line(const std::string& message) const {
  throw Error(ErrorKind::kInput, fmt::format("{}:{}: {}", name_, lines_ + 1, message));
}

std::vector<std::string_view> TextReader::cut(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (text.size() > kPiece) {
      const std::size_t newline = text.find('\n', kPiece);
      end = newline == std::string_view::npos ? text.size() : newline + 1;
    }
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

void TextReader::read_ahead() {
  try {
    fill(next_, present_.rest());
  } catch (...) {
    // Faults of earlier lines are reported first.
    next_.size = 0;
    next_.whole = 0;
    next_fault_ = std::current_exception();
  }
}

// Fills a block with the bytes carried over and the bytes that follow, up to the end of a line.
void TextReader::fill(Block& block, std::string_view carried) {
  block.size = 0;
  block.whole = 0;
  std::size_t wanted = block_size_;
  for (;;) {
    wanted = std::max(wanted, carried.size() + 1);
    if (block.capacity < wanted) {
      auto larger = std::make_unique_for_overwrite<char[]>(wanted + kPadding);
      std::copy_n(block.bytes.get(), block.size, larger.get());
      block.bytes = std::move(larger);
      block.capacity = wanted;
    }
    if (!carried.empty()) {
      std::memcpy(block.bytes.get(), carried.data(), carried.size());
      block.size = carried.size();
      carried = {};
    }
    const std::size_t room = block.capacity - block.size;
    const std::size_t got = ended_ ? 0 : bytes_->read(block.bytes.get() + block.size, room);
    block.size += got;
    bytes_read_ += got;
    ended_ = got < room;
    const std::string_view held(block.bytes.get(), block.size);
    const std::size_t newline = held.rfind('\n');
    if (ended_) {
      block.whole = block.size;
    } else if (newline != std::string_view::npos) {
      block.whole = newline + 1;
    } else if (block.size > kLongestLine) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected lines of at most {} bytes, found a longer one", name_,
                              kLongestLine));
    } else {
      wanted = 2 * block.capacity;
      continue;
    }
    block_size_ = std::min(4 * block_size_, kLargestBlock);
    return;
  }
}

void TextReader::take_next_block() {
  if (next_fault_) {
    std::rethrow_exception(next_fault_);
  }
  std::swap(present_, next_);
  text_ = present_.text();
}

void TextReader::settle(const TextPart& part) {
  for (const TextPart::Skip& skip : part.skips) {
    report_.skip(skip.kind, fmt::format("{}:{}", name_, lines_ + skip.first), skip.count);
  }
  if (part.fault) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}:{}: {}", name_, lines_ + part.lines, *part.fault));
  }
  lines_ += part.lines;
}

}  // namespace mcnb
