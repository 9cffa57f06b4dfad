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
#include "mcnb/data/formats/fields.h"
#include "mcnb/data/formats/input.h"
#include "mcnb/data/formats/read_report.h"

namespace mcnb {

// What the parser of a piece of text keeps, besides its rows.
struct TextPart {
  struct Skip {
    std::string_view kind;  // a literal
    std::uint64_t first;    // line within the piece
    std::uint64_t count;
  };

  std::uint64_t lines = 0;           // taken so far
  std::optional<std::string> fault;  // what is wrong with the last of them
  std::vector<Skip> skips;

  // Notes that the present line is left out.
  void skip(std::string_view kind);

  // As new, but for the memory it holds.
  void reset();
};

// A text file, line by line, on all threads. Pieces of whole lines are parsed side by side into
// parts, while the text that follows is read and decompressed; parts are merged in the order of
// the text. So nothing depends on where the pieces end or who parses them.
//
// A byte order mark is passed over, "\r\n" ends a line as "\n" does, and blank lines do not count
// as rows. Lines may have kLongestLine bytes. Behind every line at least kPadding bytes may be
// read (not used), as simdjson wants it.
class TextReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 24;
  static constexpr std::size_t kPadding = 64;

  // Throws Error (kInput) for an empty text.
  TextReader(const Input& input, ThreadPool& threads);

  // The first line that is not blank, or nothing at the end of the text. It stays valid, and stays
  // the next line, until skip_line or for_each_part is called.
  std::optional<std::string_view> peek_line();
  void skip_line();

  // The same, but Error (kInput) where there is none.
  std::string_view need_line();

  // Parses all lines that are left. `make_part()` gives a Part, derived from TextPart, with
  // `void row(std::string_view line)`, which is called for every line that is not blank and throws
  // RowError where it is wrong, and with `void reset()`, after which it is used again.
  // `merge(std::span<Part>)` takes the parts of a block, in the order of the text, while nothing is
  // parsed. Throws Error (kInput) for the first line that is wrong.
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

  // How many times as long as what has been parsed the whole text may be: a guess, for make_room.
  double expected_growth() const;

  // An Error (kInput) about the line that skip_line or for_each_part would take next.
  [[noreturn]] void refuse_line(const std::string& message) const;

  const std::string& name() const { return name_; }
  ReadReport& report() { return report_; }

 private:
  struct Block {
    std::unique_ptr<char[]> bytes;
    std::size_t capacity = 0;
    std::size_t size = 0;   // bytes in it
    std::size_t whole = 0;  // of these, in whole lines

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
  std::exception_ptr next_fault_;  // met while reading ahead
  std::string_view text_;          // of the present block, what is not yet taken
  std::uint64_t lines_ = 0;        // taken so far
  std::uint64_t bytes_read_ = 0;   // in both blocks and all before
  std::size_t block_size_;
  bool ended_ = false;  // no bytes follow those of the latest block
  ReadReport report_;
};

}  // namespace mcnb
