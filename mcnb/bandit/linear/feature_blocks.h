#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/base/state_file.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// The disjoint feature blocks that a policy has met, numbered in the order in which they came. A
// full-length feature vector is one block.
class FeatureBlocks {
 public:
  std::size_t size() const { return offsets_.size(); }
  std::size_t length(std::size_t number) const { return blocks_.at(offsets_[number]).length; }
  std::vector<std::uint32_t> lengths() const;  // by number

  // Throw Error (kInput), naming what() or the round and arm, for features that overlap a known
  // block (or that of an earlier arm of the round) without being equal to it, and for blocks of
  // more than 16,384 features.
  template <class What>
  void check(const Features& features, What what) const {
    if (!can_take(features)) {
      refuse(features, what());
    }
  }
  void check(const Round& round) const;

  // nullopt for a block not met before. The first block, often the only one, is found fastest.
  std::optional<std::uint32_t> find(const Features& features) const {
    return is_first(features) ? 0 : find_other(features);
  }
  // Requires features that `check` accepts.
  std::uint32_t find_or_add(const Features& features);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader, const NetworkShape& shape);

 private:
  struct Block {
    std::uint32_t length;
    std::uint32_t number;
  };

  bool is_first(const Features& features) const {
    return features.offset == first_offset_ && features.values.size() == first_length_;
  }
  std::optional<std::uint32_t> find_other(const Features& features) const;
  bool can_take(const Features& features) const { return is_first(features) || fits(features); }
  bool fits(const Features& features) const;
  [[noreturn]] void refuse(const Features& features, const std::string& what) const;
  void append(std::uint32_t offset, std::uint32_t length);
  // The block that overlaps or equals these features, or blocks_.end().
  std::map<std::uint32_t, Block>::const_iterator find_overlap(const Features& features) const;

  std::map<std::uint32_t, Block> blocks_;  // by offset
  std::vector<std::uint32_t> offsets_;     // by number
  // Block 0; its length is 0 until there is one.
  std::uint32_t first_offset_ = 0;
  std::size_t first_length_ = 0;
};

}  // namespace mcnb
