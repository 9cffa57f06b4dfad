#include "mcnb/bandit/linear/user_rows.h"

#include "mcnb/base/check.h"

namespace mcnb {

void UserRows::add_users(std::size_t count) {
  const std::size_t old = user_count();
  users_.add(count);
  if (!ranges_.empty() && ranges_.back().end == old) {
    ranges_.back().end = user_count();
  } else if (count > 0) {
    ranges_.push_back({old, user_count()});
  }
}

// Visits each user at most once from below and once from above, however many users come later.
void UserRows::skip_known() {
  const auto is_known = [&](std::size_t user) {
    return row(UserId{static_cast<std::uint32_t>(user)}).has_value();
  };
  while (lowest_ < user_count() && is_known(lowest_)) {
    ++lowest_;
  }
  while (!ranges_.empty()) {
    Range& last = ranges_.back();
    while (last.end > last.begin && is_known(last.end - 1)) {
      --last.end;
    }
    if (last.end > last.begin) {
      return;
    }
    ranges_.pop_back();
  }
}

std::uint32_t UserRows::meet(UserId user) {
  if (const std::optional<std::uint32_t> known = row(user)) {
    return *known;
  }
  check(index(user) < user_count(), "a sample is of a user there is");
  known_.push_back(user);
  next_row_.set(index(user), static_cast<std::uint32_t>(known_.size()));
  skip_known();
  return static_cast<std::uint32_t>(known_.size() - 1);
}

std::optional<UserId> UserRows::lowest_unknown() const {
  return ranges_.empty() ? std::nullopt
                         : std::optional(UserId{static_cast<std::uint32_t>(lowest_)});
}

std::optional<UserId> UserRows::highest_unknown() const {
  return ranges_.empty()
             ? std::nullopt
             : std::optional(UserId{static_cast<std::uint32_t>(ranges_.back().end - 1)});
}

std::size_t UserRows::memory_bytes() const {
  return sizeof *this + next_row_.memory_bytes() + known_.capacity() * sizeof known_[0] +
         ranges_.capacity() * sizeof ranges_[0];
}

void UserRows::save(StateWriter& writer) const {
  users_.save(writer);
  writer.write_all(known_);
}

void UserRows::load(StateReader& reader) {
  users_.load(reader);
  known_ = reader.read_all<UserId>(user_count());
  next_row_ = {};
  for (std::uint32_t row = 0; row < known_.size(); ++row) {
    if (index(known_[row]) >= user_count() || this->row(known_[row])) {
      reader.fail("a linear state belongs to a user that does not exist");
    }
    next_row_.set(index(known_[row]), row + 1);
  }
  lowest_ = 0;
  ranges_.assign(1, {0, user_count()});
  skip_known();
}

}  // namespace mcnb
