#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// The joint ridge state of a group of users with samples: lambda I + sum (M_k - lambda I) and
// sum b_k on every feature block. Users may join and leave.
//
// Borrows the users. On a block where only one member has samples, the group has no ridge state of
// its own and refers to the member's. In classification every block belongs to one user, so groups
// cost next to nothing. Pointers to ridge states are valid until the users or the group change.
class LinearGroup {
 public:
  explicit LinearGroup(const LinearUsers& users) : users_(&users) {}

  // The samples of all members on all blocks: T in the papers.
  std::uint64_t sample_count() const { return samples_; }
  // nullptr if no member has samples on the block.
  const RidgeState* find(std::uint32_t block) const;

  // x.w and sqrt(x^T M^-1 x).
  RidgePrediction predict(const Features& features) const;

  // The blocks with samples, in ascending order; `position` counts from 0.
  std::size_t block_count() const { return entries_.size(); }
  std::uint32_t block(std::size_t position) const { return entries_[position].block; }
  const RidgeState& ridge(std::size_t position) const { return ridge_of(entries_[position]); }

  // The owner has added this sample to the own state of the member in `row`.
  void add(std::uint32_t row, std::uint32_t block, std::span<const float> features, double reward);

  // Adds users with all their samples. Costs one inversion for each block on which more than one
  // member then has samples.
  void join(std::span<const std::uint32_t> rows);

  // Removes members with all their samples. If a block has lost more samples than remain, rounding
  // errors of the lost ones would begin to matter: the ridge state is then merged again from the
  // members that stay, whose rows `staying` returns. That costs no more than the removals did,
  // because each lost sample pays for one that stays.
  void leave(std::span<const std::uint32_t> rows,
             const std::function<std::vector<std::uint32_t>()>& staying);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects the users to be loaded; `rows` are those of the members.
  void load(StateReader& reader, std::span<const std::uint32_t> rows);

 private:
  struct Entry {
    std::uint32_t block;
    std::uint32_t holders = 0;        // members with samples
    std::uint32_t mixed_rows = 0;     // xor of their rows: with one holder, its row
    std::uint64_t samples = 0;        // of all holders
    std::uint64_t removed = 0;        // samples that `ridge` has given up
    std::optional<RidgeState> ridge;  // if there are at least two holders
  };
  // One block of the user in one row.
  struct Part {
    std::uint32_t block;
    std::uint32_t row;
  };

  const RidgeState& ridge_of(const Entry& entry) const;
  const RidgeState& ridge_of(const Part& part) const;
  std::vector<Part> parts_of(std::span<const std::uint32_t> rows) const;
  std::size_t position_of(std::uint32_t block) const;
  Entry& entry_to_change(std::uint32_t block);
  void count_in(Entry& entry, std::span<const Part> parts);
  void merge_anew(Entry& entry, std::span<const std::uint32_t> rows) const;

  const LinearUsers* users_;
  std::uint64_t samples_ = 0;
  std::vector<Entry> entries_;  // by block, ascending
};

}  // namespace mcnb
