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

// Which users have given samples: the known ones. Each has a row; rows count from 0 in the order of
// the first samples, and never change. All others are alike, and cost next to nothing.
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

  // The row of a user, which is known from now on. Requires a user there is.
  std::uint32_t meet(UserId user);

  // Of the users who are not known; nothing where all are.
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
  PagedArray<std::uint32_t> next_row_;  // by user: 1 + the row, 0 for those who are not known
  std::vector<UserId> known_;           // by row
  std::size_t lowest_ = 0;              // no unknown user is below
  // Where the unknown users are, ascending; the last range, if any, ends with an unknown one.
  std::vector<Range> ranges_;
};

}  // namespace mcnb
