#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mcnb {

// Long sums over draws run in this fixed order, on the CPU and on a GPU: the draws are cut into
// blocks of this many, in their order; the sums of the blocks are added in groups of this many, the
// sums of the groups in groups again, until one is left. Within a block or group each sum begins
// with its first term and goes on in order.
inline constexpr std::size_t kDrawsPerBlock = 64;

// Adds the sums of blocks, vectors of `length` numbers, in this order.
class BlockSums {
 public:
  explicit BlockSums(std::size_t length) : length_(length) {}

  // Adds the sum of the next block.
  void add(const float* block) { add_at(0, block); }

  // Writes the sum of all blocks. Requires at least one.
  void finish(float* out) {
    for (std::size_t level = 0; level + 1 < counts_.size(); ++level) {
      if (counts_[level] > 0) {
        promote(level);
      }
    }
    std::copy_n(values_.data() + (counts_.size() - 1) * length_, length_, out);
  }

 private:
  void add_at(std::size_t level, const float* part) {
    if (level == counts_.size()) {
      counts_.push_back(0);
      values_.resize(counts_.size() * length_);
    } else if (counts_[level] == kDrawsPerBlock) {
      promote(level);
    }
    float* const sums = values_.data() + level * length_;
    if (counts_[level]++ == 0) {
      std::copy_n(part, length_, sums);
      return;
    }
    for (std::size_t i = 0; i < length_; ++i) {
      sums[i] += part[i];
    }
  }

  // Hands the sum of a level's group to the level above.
  void promote(std::size_t level) {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(level * length_);
    const std::vector<float> group(begin, begin + static_cast<std::ptrdiff_t>(length_));
    counts_[level] = 0;
    add_at(level + 1, group.data());
  }

  std::size_t length_;
  std::vector<std::uint32_t> counts_;  // by level: terms in its sum so far
  std::vector<float> values_;          // by level: the sum so far
};

}  // namespace mcnb
