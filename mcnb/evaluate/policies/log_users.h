#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// The users of a log as a policy knows them: by numbers, in the order in which they first came.
// Rounds without a user belong to the user with the empty name.
class LogUsers {
 public:
  LogUsers() = default;
  // Users who are known already, by number. Requires that no name is there twice.
  explicit LogUsers(std::vector<std::string> names);

  // The number of a user. The policy gets another user if it has fewer than that.
  UserId of(const std::string& name, Policy& policy);

  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace mcnb
