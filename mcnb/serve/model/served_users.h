#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// Which learner serves which user. Names are known only by their hashes.
//
// With groups every user has one of a fixed number of learners, by hash, and nothing is kept. Else
// every user gets a learner of its own; beyond the limit new users share those that are there.
class ServedUsers {
 public:
  ServedUsers(std::size_t groups, std::size_t most) : groups_(groups), most_(most) {}

  // How many learners a policy starts with: policies have at least one user.
  std::size_t first_learners() const { return groups_ > 0 ? groups_ : 1; }
  // With a learner of their own.
  std::size_t count() const { return learner_of_.size(); }
  std::size_t learner_count() const { return groups_ > 0 ? groups_ : names_.size(); }

  // Nothing for a user who has to arrive first.
  std::optional<std::uint32_t> learner(std::uint64_t user) const;
  bool has_own(std::uint64_t user) const { return learner_of_.contains(user); }

  // Gives a new user a learner: a free one, or the next. Requires a user that has none.
  std::uint32_t add(std::uint64_t user);
  // Takes the learner of a user away. `reusable`: the next new user may have it.
  void remove(std::uint64_t user, bool reusable);

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  static constexpr std::uint64_t kNobody = 0;

  std::size_t groups_;
  std::size_t most_;
  std::unordered_map<std::uint64_t, std::uint32_t> learner_of_;
  std::vector<std::uint64_t> names_;  // by learner; kNobody where it serves no one
  std::vector<std::uint32_t> free_;
};

}  // namespace mcnb
