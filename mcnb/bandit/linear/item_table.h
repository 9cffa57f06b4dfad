#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mcnb/bandit/linear/feature_blocks.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// Decides which arms count as one item, for policies that cluster items too. An item is known from
// its first feedback on, and has the features of its last feedback. It is one of three:
// - the arm's item id, while no more than `most` different ids have had feedback;
// - if arms have no ids, or too many, and features are blocks: the block (in classification the
//   class), modulo 1,000;
// - if arms have no ids, or too many, and features are whole vectors: the nearest of at most
// `groups`
//   centres. K-means finds them in the first 5 x `groups` feature vectors of start data and
//   feedback; they do not move afterwards. Until then no item is known.
// The first feedback on an arm without an id, or with one too many, drops all items known by ids.
//
// An arm whose item is not known counts as the known item with the nearest features.
class ItemTable {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr std::size_t kSamplesPerGroup = 5;

  struct Options {
    bool ids = true;           // false: ignore the ids of arms
    std::size_t most = kMost;  // items known by their ids
    std::size_t groups = 20;
  };
  ItemTable(std::uint32_t inputs, const Options& options, std::uint64_t seed)
      : inputs_(inputs), options_(options), seed_(seed) {}

  // Known items count from 0.
  std::size_t size() const { return offsets_.size(); }
  Features features(std::size_t item) const { return {values_[item], offsets_[item]}; }

  // The item that an arm is or counts as; nullopt while no item is known. `block` is the block of
  // the arm's features, if known.
  std::optional<std::uint32_t> find(const Arm& arm, std::optional<std::uint32_t> block) const;

  // Takes in the features of start data.
  void start(const Features& features) { gather(features); }

  // What `learn` found out about the item of an arm.
  struct Meeting {
    std::optional<std::uint32_t> item;  // the arm's item
    std::optional<std::uint32_t> like;  // if the item is new: what the arm counted as before
    bool began_anew = false;            // all items known before were dropped
  };
  Meeting learn(const Arm& arm, std::uint32_t block);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // `blocks` are all blocks that have been met.
  void load(StateReader& reader, const FeatureBlocks& blocks);

 private:
  enum class Identity : std::uint32_t { kIds, kBlocks, kGroups };

  // The id or block by which the arm's item is known; nullopt if only features count.
  std::optional<std::uint32_t> key(const Arm& arm, std::optional<std::uint32_t> block) const;
  std::optional<std::uint32_t> nearest(const Features& features) const;
  void gather(const Features& features);
  void make_groups();

  bool has_id(const Arm& arm) const { return options_.ids && arm.item != kNoItem; }
  std::size_t wanted_sample() const { return kSamplesPerGroup * options_.groups * inputs_; }

  std::uint32_t inputs_;
  Options options_;
  std::uint64_t seed_;
  Identity identity_ = Identity::kIds;
  std::unordered_map<std::uint32_t, std::uint32_t> item_of_;  // by key
  std::vector<std::uint32_t> keys_;                           // by item; none for groups
  std::vector<std::vector<float>> values_;
  std::vector<std::uint32_t> offsets_;
  std::vector<float> sample_;  // whole vectors, one after the other
};

}  // namespace mcnb
