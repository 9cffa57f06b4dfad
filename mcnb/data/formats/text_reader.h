#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/base/thread_pool.h"
#include "mcnb/data/formats/input.h"
#include "mcnb/data/formats/read_report.h"
#include "mcnb/data/formats/text_fields.h"

namespace mcnb {

// What the parser of a piece of text records besides its rows.
struct TextPart {
  struct Skip {
    std::string_view kind;  // a literal
    std::uint64_t first;    // line within the piece
    std::uint64_t count;
  };

  std::uint64_t lines = 0;           // parsed so far
  std::optional<std::string> fault;  // what is wrong with the last line
  std::vector<Skip> skips;

  // Records that the current line is left out.
  void skip(std::string_view kind);

  // Empties the part, but keeps its memory.
  void reset();
};

// Reads a text file line by line on all threads. Pieces of whole lines are parsed in parallel into
// parts, while the following text is read and decompressed; parts are merged in the order of the
// text. So results depend neither on where pieces end nor on which thread parses them.
//
// A byte order mark is skipped, "\r\n" ends a line like "\n", and blank lines are not rows. Lines
// may have up to kLongestLine bytes. After every line at least kPadding bytes can be read, though
// they mean nothing, as simdjson requires.
class TextReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 24;
  static constexpr std::size_t kPadding = 64;

  // Throws Error (kInput) for an empty text.
  TextReader(const Input& input, ThreadPool& threads);

  // The next line that is not blank; nullopt at the end of the text. It stays valid, and stays the
  // next line, until skip_line or for_each_part is called.
  std::optional<std::string_view> peek_line();
  void skip_line();

  // Like peek_line, but throws Error (kInput) at the end of the text.
  std::string_view need_line();

  // Parses all remaining lines. `make_part()` returns a Part, derived from TextPart, with
  // `void row(std::string_view line)`, which is called for every line that is not blank and throws
  // RowError for a wrong one, and with `void reset()`, after which it is used again.
  // `merge(std::span<Part>)` gets the parts of a block, in the order of the text, while no part is
  // being parsed. Throws Error (kInput) for the first wrong line.
  template <class MakePart, class Merge>
  void for_each_part(MakePart&& make_part, Merge&& merge) {
    using Part = decltype(make_part());
    std::vector<Part> parts;
    while (!text_.empty()) {
      const std::vector<std::string_view> pieces = cut(text_);
      while (parts.size() < pieces.size()) {
        parts.push_back(make_part());
      }
      threads_.parallel_for(pieces.size() + 1, 1, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          i == 0 ? read_ahead() : parse(parts[i - 1], pieces[i - 1]);
        }
      });
      const std::span<Part> parsed = std::span(parts).first(pieces.size());
      for (const Part& part : parsed) {
        settle(part);
      }
      merge(parsed);
      take_next_block();
    }
  }

  // An estimate of the length of the whole text relative to the parsed part, for make_room.
  double expected_growth() const;

  // Throws Error (kInput) about the next line.
  [[noreturn]] void refuse_line(const std::string& message) const;

  const std::string& name() const { return name_; }
  ReadReport& report() { return report_; }

 private:
  struct Block {
    std::unique_ptr<char[]> bytes;
    std::size_t capacity = 0;
    std::size_t size = 0;   // bytes in the block
    std::size_t whole = 0;  // of these, bytes in whole lines

    std::string_view text() const { return {bytes.get(), whole}; }
    std::string_view rest() const { return {bytes.get() + whole, size - whole}; }
  };

  template <class Part>
  static void parse(Part& part, std::string_view text) {
    part.reset();
    try {
      while (!text.empty()) {
        const std::string_view line = take_line(text);
        ++part.lines;
        if (!line.empty() && !trimmed(line).empty()) {
          part.row(line);
        }
      }
    } catch (const RowError& error) {
      part.fault = error.message;
    }
  }

  static std::vector<std::string_view> cut(std::string_view text);
  void read_ahead();
  void fill(Block& block, std::string_view carried);
  void take_next_block();
  void settle(const TextPart& part);

  std::string name_;
  ThreadPool& threads_;
  std::unique_ptr<ByteStream> bytes_;
  Block present_;
  Block next_;
  std::exception_ptr next_fault_;  // thrown while reading ahead
  std::string_view text_;          // the rest of the present block
  std::uint64_t lines_ = 0;        // taken so far
  std::uint64_t bytes_read_ = 0;   // in both blocks and all earlier ones
  std::size_t block_size_;
  bool ended_ = false;  // no bytes follow the latest block
  ReadReport report_;
};

}  // namespace mcnb
