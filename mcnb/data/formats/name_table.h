#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// Reads a whole number below 10^18 whose decimal form is exactly the text, so that the text can be
// restored from it; kNoWholeNumber for any other text. (An optional would cost more than parsing.)
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
  // Reads up to eight digits at once: ids differ in length, so the branches of a loop would often
  // be mispredicted. First loads the text into one word, by loads that overlap.
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
  // Pads with zeros in front, then joins pairs of digits, pairs of pairs, and pairs of fours.
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

// A list of names. A name that is a plain whole number ("1193", not "01193") takes eight bytes; any
// other takes its text and twelve bytes. All names are in one block of memory.
class NameList {
 public:
  std::size_t size() const { return entries_.size(); }

  // Requires number < size().
  std::string text(std::size_t number) const;

  // Appends a name, of at most kLongestName bytes; names may repeat.
  void add(std::string_view name);

  bool operator==(const NameList&) const = default;

  static constexpr std::size_t kLongestName = std::size_t{1} << 20;

  // An entry is a whole number below 2^63, or kIsText and the offset of the text in texts_: its
  // length in four bytes, then its bytes.
  static constexpr std::uint64_t kIsText = std::uint64_t{1} << 63;

 private:
  friend class NameTable;

  std::string_view text_at(std::uint64_t entry) const;
  void add_whole_number(std::uint64_t number) { entries_.push_back(number); }
  void add_text(std::string_view text);

  std::vector<std::uint64_t> entries_;
  std::string texts_;
};

// Numbers names in the order in which they are added: 0, 1, and so on. Many threads may call find
// at once while no thread adds.
class NameTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // A name prepared for lookups; one key serves several tables.
  struct Key {
    std::uint64_t code;  // the whole number, or NameList::kIsText and the hash of the text
    std::string_view text;

    bool is_text() const { return (code & NameList::kIsText) != 0; }
  };
  static Key key(std::string_view name) {
    const std::uint64_t number = whole_number(name);
    return number != kNoWholeNumber ? Key{number, {}} : text_key(name);
  }

  // The number of a name, or kNone.
  std::uint32_t find(const Key& key) const {
    return key.code < direct_.size() ? direct_[key.code] : find_in_slots(key);
  }

  // The number of a name; a new name gets the next number. Throws Error (kLimit) beyond 2^31 names.
  std::uint32_t add(const Key& key);

  std::size_t size() const { return names_.size(); }
  const NameList& names() const { return names_; }
  NameList take_names();

  // Removes all names, but keeps the memory.
  void clear();

  // Adds the names of another table in order, and returns their numbers in this table.
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
  std::size_t slot_of(const Key& key) const;
  void grow();

  NameList names_;
  std::vector<std::uint32_t> direct_;  // numbers of names that are small whole numbers
  std::vector<Slot> slots_;  // hash table of all other names: a power of two, at most half full
  std::size_t taken_ = 0;    // slots in use
};

}  // namespace mcnb
