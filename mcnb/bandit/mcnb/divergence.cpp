#include "mcnb/bandit/mcnb/divergence.h"

#include <fmt/core.h>

#include "mcnb/base/error.h"

namespace mcnb {

void refuse_diverged(const std::string& network, const char* option, double value) {
  throw Error(ErrorKind::kInput,
              fmt::format("{} has left the finite numbers: expected smaller features or a smaller "
                          "{} than {}",
                          network, option, value));
}

std::string learner_name(UserId learner) {
  return fmt::format("the user-learner {}", index(learner));
}

}  // namespace mcnb
