#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mcnb/bandit/user_count.h"
#include "mcnb/base/ids.h"
#include "mcnb/base/paged_array.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// Numbers the known users, those who have given samples. A user gets its row, counted from 0, with
// its first sample and keeps it. Users without samples are all alike and cost next to nothing.
class UserRows {
 public:
  // Throws Error (kLimit) beyond 2^32 users.
  explicit UserRows(std::size_t users) : users_(0) { add_users(users); }

  std::size_t user_count() const { return users_.count(); }
  void add_users(std::size_t count);

  std::size_t count() const { return known_.size(); }
  std::optional<std::uint32_t> row(UserId user) const {
    const std::uint32_t next = next_row_[index(user)];
    return next == 0 ? std::nullopt : std::optional(next - 1);
  }
  UserId user(std::uint32_t row) const { return known_[row]; }

  // Returns the user's row, a new one for the first sample. Requires a valid user.
  std::uint32_t meet(UserId user);

  // The lowest and highest user without samples; nullopt if there are none.
  std::optional<UserId> lowest_unknown() const;
  std::optional<UserId> highest_unknown() const;

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  void skip_known();

  UserCount users_;
  PagedArray<std::uint32_t> next_row_;  // by user: 1 + the row, 0 without samples
  std::vector<UserId> known_;           // by row
  std::size_t lowest_ = 0;              // no unknown user is below
  // Ranges that contain all users without samples, ascending; the last range ends with one.
  std::vector<Range> ranges_;
};

}  // namespace mcnb
