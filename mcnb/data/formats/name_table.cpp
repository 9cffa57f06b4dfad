#include "mcnb/data/formats/name_table.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Whole numbers below this are looked up in a plain array. Most ids of users and items are, and the
// array is small enough for the caches, unlike a table with keys.
constexpr std::uint64_t kDirect = std::uint64_t{1} << 20;

// Neighbouring numbers are common, so all bits must affect the hash: the last steps of SplitMix64.
std::size_t spread(std::uint64_t code) {
  code = (code ^ (code >> 30)) * 0xbf58476d1ce4e5b9ULL;
  code = (code ^ (code >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::size_t>(code ^ (code >> 31));
}

}  // namespace

std::uint64_t long_whole_number(std::string_view text) {
  constexpr std::size_t kMostDigits = 18;
  if (text.empty() || text.size() > kMostDigits || (text[0] == '0' && text.size() > 1)) {
    return kNoWholeNumber;
  }
  std::uint64_t number = 0;
  for (const char c : text) {
    const auto digit = static_cast<std::uint64_t>(static_cast<unsigned char>(c)) - '0';
    if (digit > 9) {
      return kNoWholeNumber;
    }
    number = 10 * number + digit;
  }
  return number;
}

std::string NameList::text(std::size_t number) const {
  check(number < entries_.size(), "the name's number is below their count");
  const std::uint64_t entry = entries_[number];
  return (entry & kIsText) != 0 ? std::string(text_at(entry)) : std::to_string(entry);
}

void NameList::add(std::string_view name) {
  const std::uint64_t number = whole_number(name);
  if (number != kNoWholeNumber) {
    add_whole_number(number);
  } else {
    add_text(name);
  }
}

std::string_view NameList::text_at(std::uint64_t entry) const {
  const char* const text = texts_.data() + (entry & ~kIsText);
  std::uint32_t length = 0;
  std::memcpy(&length, text, sizeof length);
  return {text + sizeof length, length};
}

void NameList::add_text(std::string_view text) {
  check(text.size() <= kLongestName, "a name is at most kLongestName long");
  const auto length = static_cast<std::uint32_t>(text.size());
  char bytes[sizeof length];
  std::memcpy(bytes, &length, sizeof length);
  entries_.push_back(kIsText | texts_.size());
  texts_.append(bytes, sizeof bytes);
  texts_.append(text);
}

NameTable::Key NameTable::text_key(std::string_view name) {
  return {NameList::kIsText | XXH3_64bits(name.data(), name.size()), name};
}

bool NameTable::holds(const Slot& slot, const Key& key) const {
  return slot.code == key.code &&
         (!key.is_text() || names_.text_at(names_.entries_[slot.number]) == key.text);
}

// The slot that holds the name, or the free slot where it belongs. Requires slots.
std::size_t NameTable::slot_of(const Key& key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = spread(key.code) & mask;
  while (slots_[slot].number != kNone && !holds(slots_[slot], key)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

std::uint32_t NameTable::find_in_slots(const Key& key) const {
  return slots_.empty() ? kNone : slots_[slot_of(key)].number;
}

std::uint32_t NameTable::add(const Key& key) {
  std::uint32_t& number = key.code < kDirect ? direct_number(key.code) : slot_number(key);
  if (number == kNone) {
    constexpr std::size_t kMostNames = std::size_t{1} << 31;
    if (names_.size() >= kMostNames) {
      throw Error(ErrorKind::kLimit, "more than 2147483648 different names");
    }
    number = static_cast<std::uint32_t>(names_.size());
    if (key.is_text()) {
      names_.add_text(key.text);
    } else {
      names_.add_whole_number(key.code);
    }
  }
  return number;
}

std::uint32_t& NameTable::direct_number(std::uint64_t code) {
  if (code >= direct_.size()) {
    direct_.resize(std::bit_ceil(static_cast<std::size_t>(code) + 1), kNone);
  }
  return direct_[code];
}

// The number in the slot of a name, which is marked as used.
std::uint32_t& NameTable::slot_number(const Key& key) {
  if (2 * (taken_ + 1) > slots_.size()) {
    grow();
  }
  Slot& slot = slots_[slot_of(key)];
  if (slot.number == kNone) {
    slot.code = key.code;
    ++taken_;
  }
  return slot.number;
}

void NameTable::grow() {
  constexpr std::size_t kFirstSlots = 64;
  const std::size_t size = slots_.empty() ? kFirstSlots : 2 * slots_.size();
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(size));
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == kNone) {
      continue;
    }
    std::size_t target = spread(slot.code) & mask;
    while (slots_[target].number != kNone) {
      target = (target + 1) & mask;
    }
    slots_[target] = slot;
  }
}

std::vector<std::uint32_t> NameTable::add_all(const NameTable& other) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(other.size());
  for (const std::uint64_t entry : other.names_.entries_) {
    const bool is_text = (entry & NameList::kIsText) != 0;
    numbers.push_back(add(is_text ? text_key(other.names_.text_at(entry)) : Key{entry, {}}));
  }
  return numbers;
}

NameList NameTable::take_names() {
  NameList names = std::exchange(names_, {});
  *this = {};
  return names;
}

void NameTable::clear() {
  names_.entries_.clear();
  names_.texts_.clear();
  direct_.clear();
  slots_.clear();
  taken_ = 0;
}

}  // namespace mcnb
