#include "mcnb/bandit/linear/feature_blocks.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "mcnb/bandit/input_names.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kLongest = 16'384;  // the largest ridge state

bool same_block(const Features& a, const Features& b) {
  return a.offset == b.offset && a.values.size() == b.values.size();
}

}  // namespace

std::map<std::uint32_t, FeatureBlocks::Block>::const_iterator FeatureBlocks::find_overlap(
    const Features& features) const {
  // Blocks are disjoint: only the last one that begins before the end of these features can
  // overlap.
  const std::size_t end = features.offset + features.values.size();
  const auto next = blocks_.lower_bound(static_cast<std::uint32_t>(end));
  if (next == blocks_.begin()) {
    return blocks_.end();
  }
  const auto last = std::prev(next);
  return last->first + last->second.length > features.offset ? last : blocks_.end();
}

bool FeatureBlocks::fits(const Features& features) const {
  const auto overlap = find_overlap(features);
  const bool same = overlap != blocks_.end() && overlap->first == features.offset &&
                    overlap->second.length == features.values.size();
  return features.values.size() <= kLongest && (same || overlap == blocks_.end());
}

void FeatureBlocks::refuse(const Features& features, const std::string& what) const {
  const std::size_t length = features.values.size();
  if (length > kLongest) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: a block has {} features, a linear state holds at most {}", what,
                            length, kLongest));
  }
  const auto& [offset, block] = *find_overlap(features);
  throw Error(ErrorKind::kInput,
              fmt::format("{}: features {} to {} overlap the block {} to {} in part; linear "
                          "states need blocks that are equal or disjoint",
                          what, features.offset, features.offset + length - 1, offset,
                          offset + block.length - 1));
}

void FeatureBlocks::check(const Round& round) const {
  const Features& first = round.arms.front().features;
  const auto as_first = [&](const Arm& arm) { return same_block(arm.features, first); };
  const auto where = [&](const Arm& arm) { return arm_name(round.id, index(arm.index)); };
  if (std::ranges::all_of(round.arms, as_first)) {
    check(first, [&] { return where(round.arms.front()); });
    return;
  }
  const auto is_known = [&](const Arm& arm) { return find(arm.features).has_value(); };
  if (std::ranges::all_of(round.arms, is_known)) {
    return;
  }
  FeatureBlocks of_round;
  for (const Arm& arm : round.arms) {
    check(arm.features, [&] { return where(arm); });
    of_round.check(arm.features, [&] { return where(arm); });
    of_round.find_or_add(arm.features);
  }
}

std::vector<std::uint32_t> FeatureBlocks::lengths() const {
  std::vector<std::uint32_t> lengths;
  for (const std::uint32_t offset : offsets_) {
    lengths.push_back(blocks_.at(offset).length);
  }
  return lengths;
}

std::optional<std::uint32_t> FeatureBlocks::find_other(const Features& features) const {
  const auto found = blocks_.find(features.offset);
  if (found == blocks_.end() || found->second.length != features.values.size()) {
    return std::nullopt;
  }
  return found->second.number;
}

std::uint32_t FeatureBlocks::find_or_add(const Features& features) {
  if (const std::optional<std::uint32_t> number = find(features)) {
    return *number;
  }
  append(features.offset, static_cast<std::uint32_t>(features.values.size()));
  return static_cast<std::uint32_t>(size() - 1);
}

void FeatureBlocks::append(std::uint32_t offset, std::uint32_t length) {
  const auto number = static_cast<std::uint32_t>(size());
  const bool added = blocks_.emplace(offset, Block{length, number}).second;
  mcnb::check(added, "blocks have been checked before they are added");
  offsets_.push_back(offset);
  if (number == 0) {
    first_offset_ = offset;
    first_length_ = length;
  }
}

std::size_t FeatureBlocks::memory_bytes() const {
  constexpr std::size_t kTreeNode = 4 * sizeof(void*) + sizeof(std::uint32_t) + sizeof(Block);
  return blocks_.size() * kTreeNode + offsets_.capacity() * sizeof offsets_[0];
}

void FeatureBlocks::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(size()));
  for (const std::uint32_t offset : offsets_) {
    writer.write(offset);
    writer.write(blocks_.at(offset).length);
  }
}

void FeatureBlocks::load(StateReader& reader, const NetworkShape& shape) {
  *this = {};
  const auto count = reader.read<std::uint64_t>();
  std::uint64_t features = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto offset = reader.read<std::uint32_t>();
    const auto length = reader.read<std::uint32_t>();
    features += length;
    const auto next = blocks_.lower_bound(offset);
    const bool clear_behind =
        next == blocks_.end() || offset + std::uint64_t{length} <= next->first;
    const bool clear_before =
        next == blocks_.begin() ||
        std::prev(next)->first + std::uint64_t{std::prev(next)->second.length} <= offset;
    if (length == 0 || length > kLongest || features > shape.inputs ||
        offset > shape.inputs - length || !clear_behind || !clear_before) {
      reader.fail("a feature block is not one that could have been met");
    }
    append(offset, length);
  }
}

}  // namespace mcnb
