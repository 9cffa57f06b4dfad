#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mcnb/base/state_file.h"
#include "mcnb/serve/model/parted_map.h"

namespace mcnb {

// Maps users to learners. Users are known by the hashes of their names.
//
// With groups, a hash maps every user to one of a fixed number of learners, and nothing is kept.
// Without, every user gets its own learner; beyond the limit, new users share existing learners.
class ServedUsers {
 public:
  ServedUsers(std::size_t groups, std::size_t most) : groups_(groups), most_(most) {}

  // The number of learners that the policy starts with: a policy has at least one user.
  std::size_t first_learners() const { return groups_ > 0 ? groups_ : 1; }
  // The number of users with their own learner.
  std::size_t count() const { return learner_of_.size(); }
  std::size_t learner_count() const { return groups_ > 0 ? groups_ : names_.size(); }

  // Returns nullopt for a user who must arrive first.
  std::optional<std::uint32_t> learner(std::uint64_t user) const;
  bool has_own(std::uint64_t user) const { return learner_of_.contains(user); }

  // Gives a user a free learner or a new one. Requires a user without a learner.
  std::uint32_t add(std::uint64_t user);
  // Takes the learner of a user away. `reusable`: a later user may get it.
  void remove(std::uint64_t user, bool reusable);

  // The hash of the user whose own learner this is; 0 if it is nobody's, or stands for a group.
  std::uint64_t user_of(std::uint32_t learner) const {
    return learner < names_.size() ? names_[learner] : kNobody;
  }

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  static constexpr std::uint64_t kNobody = 0;

  std::size_t groups_;
  std::size_t most_;
  PartedMap<std::uint32_t> learner_of_;
  std::vector<std::uint64_t> names_;  // by learner: its user's hash, or kNobody
  std::vector<std::uint32_t> free_;
};

}  // namespace mcnb
