#include "mcnb/serve/model/served_users.h"

#include "mcnb/base/check.h"

namespace mcnb {

std::optional<std::uint32_t> ServedUsers::learner(std::uint64_t user) const {
  if (groups_ > 0) {
    return static_cast<std::uint32_t>(user % groups_);
  }
  if (const std::uint32_t* const found = learner_of_.find(user)) {
    return *found;
  }
  if (free_.empty() && names_.size() >= most_) {
    return static_cast<std::uint32_t>(user % names_.size());
  }
  return std::nullopt;
}

std::uint32_t ServedUsers::add(std::uint64_t user) {
  check(!learner(user).has_value(), "a user arrives once");
  std::uint32_t learner = 0;
  if (!free_.empty()) {
    learner = free_.back();
    free_.pop_back();
    names_[learner] = user;
  } else {
    learner = static_cast<std::uint32_t>(names_.size());
    names_.push_back(user);
  }
  learner_of_.emplace(user, learner);
  return learner;
}

void ServedUsers::remove(std::uint64_t user, bool reusable) {
  const std::uint32_t* const found = learner_of_.find(user);
  check(found != nullptr, "a user that is removed has a learner");
  names_[*found] = kNobody;
  if (reusable) {
    free_.push_back(*found);
  }
  learner_of_.erase(user);
}

std::size_t ServedUsers::memory_bytes() const {
  return learner_of_.size() * 48 + names_.capacity() * sizeof names_[0] +
         free_.capacity() * sizeof free_[0];
}

void ServedUsers::save(StateWriter& writer) const {
  writer.write_all(names_);
  writer.write_all(free_);
}

void ServedUsers::load(StateReader& reader) {
  names_ = reader.read_all<std::uint64_t>(groups_ > 0 ? 0 : most_);
  free_ = reader.read_all<std::uint32_t>(names_.size());
  learner_of_ = {};
  for (std::uint32_t learner = 0; learner < names_.size(); ++learner) {
    if (names_[learner] != kNobody && !learner_of_.emplace(names_[learner], learner)) {
      reader.fail("two learners serve one user");
    }
  }
  std::vector<bool> seen(names_.size());
  for (const std::uint32_t learner : free_) {
    if (learner >= names_.size() || names_[learner] != kNobody || seen[learner]) {
      reader.fail("the free learners do not fit the users");
    }
    seen[learner] = true;
  }
}

}  // namespace mcnb
