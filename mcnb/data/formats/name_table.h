#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// The number that is written exactly as the text is, so that the text can be made from it again;
// kNoWholeNumber where there is none below 10^18. (An optional would cost more than the parsing.)
inline constexpr std::uint64_t kNoWholeNumber = ~std::uint64_t{0};
std::uint64_t long_whole_number(std::string_view text);
inline std::uint64_t whole_number(std::string_view text) {
  static_assert(std::endian::native == std::endian::little, "the first character is the low byte");
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::size_t kWord = 8;
  const std::size_t length = text.size();
  if (length == 0 || length > kWord || (text[0] == '0' && length > 1)) {
    return long_whole_number(text);
  }
  // Up to eight digits at once: ids differ in length, and a loop over them would often be
  // predicted wrongly. First the text into one word, from loads that overlap.
  std::uint64_t word = 0;
  if (length >= 4) {
    std::uint32_t head = 0;
    std::uint32_t tail = 0;
    std::memcpy(&head, text.data(), sizeof head);
    std::memcpy(&tail, text.data() + length - sizeof tail, sizeof tail);
    word = head | (std::uint64_t{tail} << (8 * (length - sizeof tail)));
  } else {
    const auto byte = [&](std::size_t i) {
      return std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
    };
    word = byte(0) | byte(length / 2) | byte(length - 1);
  }
  // Zeros in front, then pairs of digits, of pairs, and of fours become one number each.
  word <<= 8 * (kWord - length);
  word |= length == kWord ? 0 : ('0' * kOnes) >> (8 * length);
  constexpr std::uint64_t kHigh = 0xf0 * kOnes;
  if ((word & kHigh) != '0' * kOnes || ((word + 6 * kOnes) & kHigh) != '0' * kOnes) {
    return kNoWholeNumber;
  }
  word -= '0' * kOnes;
  word = word * 10 + (word >> 8);
  constexpr std::uint64_t kPairs = 0x000000ff000000ffULL;
  const std::uint64_t upper = (word & kPairs) * (100 + (std::uint64_t{1000000} << 32));
  const std::uint64_t lower = ((word >> 16) & kPairs) * (1 + (std::uint64_t{10000} << 32));
  return (upper + lower) >> 32;
}

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

  // An entry is a whole number below 2^63, or kIsText and the place of the text: its length in
  // four bytes, then its bytes.
  static constexpr std::uint64_t kIsText = std::uint64_t{1} << 63;

 private:
  friend class NameTable;

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

    bool is_text() const { return (code & Names::kIsText) != 0; }
  };
  static Key key(std::string_view name) {
    const std::uint64_t number = whole_number(name);
    return number != kNoWholeNumber ? Key{number, {}} : text_key(name);
  }

  // The number of a name, or kNone.
  std::uint32_t find(const Key& key) const {
    return key.code < direct_.size() ? direct_[key.code] : find_in_slots(key);
  }

  // The number of a name, which is a new one where the name is new. Throws Error (kLimit) beyond
  // 2^31 names.
  std::uint32_t add(const Key& key);

  std::size_t size() const { return names_.size(); }
  const Names& names() const { return names_; }
  Names take_names();

  // Forgets all names, but keeps the memory.
  void clear();

  // Adds the names of another table, in order, and returns their numbers here.
  std::vector<std::uint32_t> add_all(const NameTable& other);

 private:
  struct Slot {
    std::uint64_t code = 0;
    std::uint32_t number = kNone;
  };

  static Key text_key(std::string_view name);
  std::uint32_t find_in_slots(const Key& key) const;
  std::uint32_t& direct_number(std::uint64_t code);
  std::uint32_t& slot_number(const Key& key);
  bool holds(const Slot& slot, const Key& key) const;
  std::size_t place_of(const Key& key) const;
  void grow();

  Names names_;
  std::vector<std::uint32_t> direct_;  // numbers of small whole numbers
  std::vector<Slot> slots_;            // of all other names: a power of two, at most half taken
  std::size_t taken_ = 0;              // of the slots
};

}  // namespace mcnb
