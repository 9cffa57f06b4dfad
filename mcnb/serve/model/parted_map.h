#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace mcnb {

// A hash map by keys that are hashes, in 64 parts. One large hash map would now and then move all
// of its entries, which is a pause of many milliseconds; the parts move theirs one by one.
template <class Value>
class PartedMap {
 public:
  std::size_t size() const { return size_; }
  bool contains(std::uint64_t key) const { return find(key) != nullptr; }

  // nullptr if there is no such key.
  const Value* find(std::uint64_t key) const {
    const Part& part = part_of(key);
    const auto found = part.find(key);
    return found == part.end() ? nullptr : &found->second;
  }
  Value* find(std::uint64_t key) {
    return const_cast<Value*>(static_cast<const PartedMap*>(this)->find(key));
  }

  // Returns false and changes nothing if the key is there.
  bool emplace(std::uint64_t key, Value value) {
    const bool is_new = part_of(key).try_emplace(key, std::move(value)).second;
    size_ += is_new ? 1 : 0;
    return is_new;
  }
  void erase(std::uint64_t key) { size_ -= part_of(key).erase(key); }

  // Erases the values for which `gone` is true.
  template <class Gone>
  void erase_if(Gone gone) {
    for (Part& part : parts_) {
      size_ -= std::erase_if(part, [&](const auto& entry) { return gone(entry.second); });
    }
  }

 private:
  static constexpr int kPartBits = 6;
  using Part = std::unordered_map<std::uint64_t, Value>;

  Part& part_of(std::uint64_t key) { return parts_[key >> (64 - kPartBits)]; }
  const Part& part_of(std::uint64_t key) const { return parts_[key >> (64 - kPartBits)]; }

  std::array<Part, std::size_t{1} << kPartBits> parts_;
  std::size_t size_ = 0;
};

}  // namespace mcnb
