#pragma once

#include "mcnb/base/ids.h"

namespace mcnb {

// Whether all users share one model or have one each.
enum class UserModels { kOne, kEach };

// The user whose model a user's samples go to. A shared model is kept as that of user 0.
inline UserId model_owner(UserModels models, UserId user) {
  return models == UserModels::kEach ? user : UserId{0};
}

}  // namespace mcnb
