#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// Names by number, in the order in which they were added. A name that is a plain whole number
// ("1193", not "01193") takes eight bytes; any other its text and twelve more, all in one block.
class Names {
 public:
  std::size_t size() const { return entries_.size(); }

  // Requires number < size().
  std::string text(std::size_t number) const;

  // Appends a name, of at most kLongestName bytes; names may repeat.
  void add(std::string_view name);

  bool operator==(const Names&) const = default;

  static constexpr std::size_t kLongestName = std::size_t{1} << 20;

 private:
  friend class NameTable;

  // An entry is a whole number below 2^63, or kIsText and the place of the text: its length in
  // four bytes, then its bytes.
  static constexpr std::uint64_t kIsText = std::uint64_t{1} << 63;

  std::string_view text_at(std::uint64_t entry) const;
  void add_whole_number(std::uint64_t number) { entries_.push_back(number); }
  void add_text(std::string_view text);

  std::vector<std::uint64_t> entries_;
  std::string texts_;
};

// Gives names their numbers: 0 to the first one seen, 1 to the second, and so on. Reading it
// (find) from many threads is safe while nobody adds.
class NameTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // A name made ready for looking up: once for several tables.
  struct Key {
    std::uint64_t code;  // the whole number, or Names::kIsText and the hash of the text
    std::string_view text;
  };
  static Key key(std::string_view name);

  // The number of a name, or kNone.
  std::uint32_t find(const Key& key) const;

  // The number of a name, which is a new one where the name is new. Throws Error (kLimit) beyond
  // 2^31 names.
  std::uint32_t add(const Key& key);

  std::size_t size() const { return names_.size(); }
  const Names& names() const { return names_; }
  Names take_names();

  // Adds the names of another table, in order, and returns their numbers here.
  std::vector<std::uint32_t> add_all(const NameTable& other);

 private:
  struct Slot {
    std::uint64_t code = 0;
    std::uint32_t number = kNone;
  };

  bool holds(const Slot& slot, const Key& key) const;
  std::size_t place_of(const Key& key) const;
  void grow();

  Names names_;
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
};

}  // namespace mcnb
