#pragma once

#include <cstddef>
#include <cstdint>

#include "mcnb/base/ids.h"
#include "mcnb/base/state_file.h"

namespace mcnb {

// How many users a policy knows, for policies that keep nothing else about each of them.
class UserCount {
 public:
  // Throws Error (kLimit) beyond 2^32 users, which is what ids can tell apart.
  explicit UserCount(std::size_t count) { add(count); }

  std::size_t count() const { return count_; }
  void add(std::size_t count);

  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  std::size_t count_ = 0;
};

// Whether all users share one model, which is kept as that of the first, or have one each.
enum class UserModels { kOne, kEach };

inline UserId model_owner(UserModels models, UserId user) {
  return models == UserModels::kEach ? user : UserId{0};
}

}  // namespace mcnb
