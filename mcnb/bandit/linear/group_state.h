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

// What a group of known users knows together in the linear model, lambda I + sum (M_k - lambda I)
// and sum b_k on every feature block, while users join and leave.
//
// Borrows the users. On a block that only one member has samples of, the group has no ridge state
// of its own but refers to the member's: in classification, where every block belongs to one user,
// groups cost next to nothing. Pointers to ridge states hold until the users or the group change.
class GroupState {
 public:
  explicit GroupState(const LinearUsers& users) : users_(&users) {}

  // Of all blocks and members: T in the papers.
  std::uint64_t sample_count() const { return samples_; }
  // Nothing (nullptr) where no member has samples.
  const RidgeState* find(std::uint32_t block) const;

  // x.w and sqrt(x^T M^-1 x).
  RidgePrediction predict(const Features& features) const;

  // The blocks with samples, ascending, place by place.
  std::size_t block_count() const { return entries_.size(); }
  std::uint32_t block(std::size_t place) const { return entries_[place].block; }
  const RidgeState& ridge(std::size_t place) const { return ridge_of(entries_[place]); }

  // The state of a member, given by its row, has taken in this sample.
  void add(std::uint32_t row, std::uint32_t block, std::span<const float> features, double reward);

  // Users join with all they have. One inversion for each block on which more than one member has
  // samples then.
  void join(std::span<const std::uint32_t> rows);

  // Members leave with all they have. On a block where less would be left than has been given up,
  // so that the roundings of what is gone would begin to matter, the ridge state is merged anew
  // from those that stay: `staying` gives their rows. As each sample given up pays for one that
  // stays, that costs no more than the departures did.
  void leave(std::span<const std::uint32_t> rows,
             const std::function<std::vector<std::uint32_t>()>& staying);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects the users to be loaded; `rows`: of the members.
  void load(StateReader& reader, std::span<const std::uint32_t> rows);

 private:
  struct Entry {
    std::uint32_t block;
    std::uint32_t holders = 0;        // members with samples
    std::uint32_t mixed_rows = 0;     // their rows, by exclusive or: of a single one its row
    std::uint64_t samples = 0;        // of all of them
    std::uint64_t removed = 0;        // samples that `ridge` has given up
    std::optional<RidgeState> ridge;  // where there are at least two holders
  };
  // A row with a block of it.
  struct Part {
    std::uint32_t block;
    std::uint32_t row;
  };

  const RidgeState& ridge_of(const Entry& entry) const;
  const RidgeState& ridge_of(const Part& part) const;
  std::vector<Part> parts_of(std::span<const std::uint32_t> rows) const;
  std::size_t place_of(std::uint32_t block) const;
  Entry& entry_to_change(std::uint32_t block);
  void count_in(Entry& entry, std::span<const Part> parts);
  void merge_anew(Entry& entry, std::span<const std::uint32_t> rows) const;

  const LinearUsers* users_;
  std::uint64_t samples_ = 0;
  std::vector<Entry> entries_;  // by block, ascending
};

}  // namespace mcnb
