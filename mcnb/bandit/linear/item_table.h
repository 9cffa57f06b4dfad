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

// What stands for an item, for policies that cluster items too. There are at most `most`, and never
// more than 1,000:
// - the arm's item id, as long as no more than `most` different ones have had feedback; an item is
//   known from its first feedback on, and looks like it did at the last;
// - where arms have no ids, or too many, and features are blocks: the block (the class, in
//   classification), modulo 1,000, likewise;
// - where arms have no ids, or too many, and features are whole vectors: the nearest of at most
//   `groups` centres. They come from K-means of the first 5 x `groups` feature vectors of start
//   data and feedback, and do not move afterwards. Before that no item is known.
// Which it is shows with feedback: the first arm without an id, or with one too many, begins anew.
//
// An arm whose item is not known is taken for the known item with the nearest features.
class ItemTable {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr std::size_t kSamplesPerGroup = 5;

  struct Options {
    bool ids = true;           // false: those of the arms do not count
    std::size_t most = kMost;  // known by their ids
    std::size_t groups = 20;
  };
  ItemTable(std::uint32_t inputs, const Options& options, std::uint64_t seed)
      : inputs_(inputs), options_(options), seed_(seed) {}

  // Known items count from 0.
  std::size_t size() const { return offsets_.size(); }
  Features features(std::size_t item) const { return {values_[item], offsets_[item]}; }

  // The item that an arm is, or is taken for; nothing where none is known. `block` is that of the
  // arm's features, where it is known.
  std::optional<std::uint32_t> find(const Arm& arm, std::optional<std::uint32_t> block) const;

  // Features of start data.
  void start(const Features& features) { gather(features); }

  // Feedback on an arm has come.
  struct Meeting {
    std::optional<std::uint32_t> item;  // what the arm is
    std::optional<std::uint32_t> like;  // where that is new: what it was taken for before
    bool began_anew = false;            // all items known before are gone
  };
  Meeting learn(const Arm& arm, std::uint32_t block);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // `blocks`: all that have been met.
  void load(StateReader& reader, const FeatureBlocks& blocks);

 private:
  enum class Identity : std::uint32_t { kIds, kBlocks, kGroups };

  // By which number an item of this kind is known; nothing where arms are known by features alone.
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
