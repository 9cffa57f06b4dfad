#pragma once

#include <string>

#include "mcnb/base/ids.h"

namespace mcnb {

// Throws Error (kInput): the numbers of a network are not finite, or would not be, and a smaller
// value of the option helps.
[[noreturn]] void refuse_diverged(const std::string& network, const char* option, double value);

// How errors call the network of a user or pre-cluster.
std::string learner_name(UserId learner);

}  // namespace mcnb
