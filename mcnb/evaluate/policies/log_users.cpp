#include "mcnb/evaluate/policies/log_users.h"

#include "mcnb/base/check.h"

namespace mcnb {

LogUsers::LogUsers(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool is_new = numbers_.emplace(names_[i], static_cast<std::uint32_t>(i)).second;
    check(is_new, "every user has a name of its own");
  }
}

UserId LogUsers::of(const std::string& name, Policy& policy) {
  const auto next = static_cast<std::uint32_t>(names_.size());
  const auto [known, is_new] = numbers_.try_emplace(name, next);
  if (is_new) {
    if (next >= policy.user_count()) {
      policy.add_users(next + 1 - policy.user_count());
    }
    names_.push_back(name);
  }
  return UserId{known->second};
}

}  // namespace mcnb
