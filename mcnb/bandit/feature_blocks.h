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

// The feature blocks that linear states have met, any two of them disjoint, numbered in the order
// they came. A full-length feature vector is one block.
class FeatureBlocks {
 public:
  std::size_t size() const { return offsets_.size(); }
  std::size_t length(std::size_t number) const { return blocks_.at(offsets_[number]).length; }

  // Throw Error (kInput), naming what() or the round and arm, for features that overlap a block, or
  // those of an earlier arm of the round, without being the same block, and for blocks of more than
  // 16,384 features.
  template <class What>
  void check(const Features& features, What what) const {
    if (!can_take(features)) {
      refuse(features, what());
    }
  }
  void check(const Round& round) const;

  // Nothing for a block not met before.
  std::optional<std::uint32_t> find(const Features& features) const;
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

  bool can_take(const Features& features) const;
  [[noreturn]] void refuse(const Features& features, const std::string& what) const;
  // The block that overlaps these features, be it the same, or blocks_.end().
  std::map<std::uint32_t, Block>::const_iterator find_overlap(const Features& features) const;

  std::map<std::uint32_t, Block> blocks_;  // by offset
  std::vector<std::uint32_t> offsets_;     // by number
};

}  // namespace mcnb
